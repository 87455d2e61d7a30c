; What JavaScript code does that a gate wants to know. See python.scm for how rules are written.

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "runs-shell") (#set! does "shell")
 (#set! names "child_process.exec child_process.execSync shelljs.exec execa.execaCommand execa.execaCommandSync execa.command zx.$ Bun.$")
 (#set! reason "the text is run by a shell"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "runs-program") (#set! does "program")
 (#set! names "child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync execa execa.execa execa.execaSync execa.sync cross-spawn cross-spawn.sync")
 (#set! reason "another program is run"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "runs-program") (#set! does "spawn")
 (#set! names "Bun.spawn Bun.spawnSync Deno.run")
 (#set! reason "another program is run"))

([(new_expression constructor: (_) @function) (call_expression function: (_) @function)] @call
 (#set! rule "runs-program") (#set! does "ask")
 (#set! names "Deno.Command child_process.fork cluster.fork node-pty.spawn process.binding process.dlopen process._linkedBinding")
 (#set! reason "another process is started in a way that cannot be judged"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "dynamic-code") (#set! does "code")
 (#set! names "eval globalThis.eval global.eval window.eval self.eval")
 (#set! reason "text is run as code"))

([(new_expression constructor: (_) @function) (call_expression function: (_) @function)] @call
 (#set! rule "dynamic-code") (#set! does "ask")
 (#set! names "Function vm.runInNewContext vm.runInThisContext vm.runInContext vm.Script vm.compileFunction module._load module._compile *.constructor.constructor ().constructor *().constructor [].*.constructor inspector.open *.?")
 (#set! reason "text is run as code"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "dynamic-import") (#set! does "import")
 (#set! names "require import *.require *.getBuiltinModule")
 (#set! reason "the module to be loaded is not known before it runs"))

([(member_expression) (identifier) (subscript_expression)] @reference
 (#set! rule "passed-around") (#set! does "reference")
 (#set! names "child_process.exec child_process.execSync child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync child_process.fork fs.rmSync fs.unlinkSync eval")
 (#set! reason "a function that starts or removes things is passed around"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "removes") (#set! does "remove")
 (#set! names "fs.rm fs.rmSync fs.unlink fs.unlinkSync fs.rmdir fs.rmdirSync fs.promises.rm fs.promises.unlink fs.promises.rmdir fs/promises.rm fs/promises.unlink fs/promises.rmdir fs.truncate fs.truncateSync fs-extra.remove fs-extra.removeSync fs-extra.emptyDir fs-extra.emptyDirSync rimraf rimraf.sync rimraf.rimraf rimraf.rimrafSync del shelljs.rm Deno.remove Deno.removeSync")
 (#set! reason "files are removed"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "reads") (#set! does "read")
 (#set! names "fs.readFile fs.readFileSync fs.createReadStream fs.open fs.openSync fs.readdir fs.readdirSync fs.promises.readFile fs.promises.readdir fs.promises.open fs/promises.readFile fs/promises.readdir fs/promises.open Bun.file Deno.readTextFile Deno.readTextFileSync Deno.readFile Deno.readFileSync fs-extra.readFile fs-extra.readFileSync fs-extra.readJson fs-extra.readJsonSync")
 (#set! reason "a file is read"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "writes") (#set! does "write")
 (#set! names "fs.writeFile fs.writeFileSync fs.appendFile fs.appendFileSync fs.createWriteStream fs.mkdir fs.mkdirSync fs.promises.writeFile fs.promises.appendFile fs/promises.writeFile fs/promises.appendFile Bun.write Deno.writeTextFile Deno.writeTextFileSync Deno.writeFile Deno.writeFileSync fs-extra.writeFile fs-extra.outputFile fs-extra.writeFileSync fs-extra.outputFileSync")
 (#set! reason "a file is written"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "changes") (#set! does "change")
 (#set! names "fs.chmod fs.chmodSync fs.chown fs.chownSync fs.promises.chmod fs.promises.chown fs/promises.chmod fs/promises.chown")
 (#set! reason "rights of a file are changed"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "links") (#set! does "link")
 (#set! names "fs.symlink fs.symlinkSync fs.link fs.linkSync fs.copyFile fs.copyFileSync fs.cp fs.cpSync fs.rename fs.renameSync fs.promises.symlink fs.promises.copyFile fs.promises.rename fs/promises.symlink fs/promises.copyFile fs/promises.rename")
 (#set! reason "a file gets another name"))

((call_expression function: (_) @function) @call
 (#set! rule "privilege") (#set! does "ask")
 (#set! names "process.setuid process.setgid process.seteuid process.setegid process.setgroups process.chroot")
 (#set! reason "the process changes who it runs as"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "signals") (#set! does "signal")
 (#set! names "process.kill")
 (#set! reason "many processes are reached at once"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "sends-environment") (#set! does "send")
 (#set! names "fetch axios axios.* http.request* https.request* node-fetch got got.* net.connect* net.createConnection* tls.connect* undici.* superagent.* navigator.sendBeacon")
 (#set! reason "the environment, which may hold secrets, is sent away"))

((assignment_expression left: (_) @target right: (_) @value)
 (#set! rule "sets-variable") (#set! does "environment")
 (#set! names "process.env.*")
 (#set! reason "a variable for programs to come is set"))

((call_expression function: (_) @function arguments: (template_string) @arguments) @call
 (#set! rule "runs-shell") (#set! does "template")
 (#set! names "$ zx.$ Bun.$ execa.$")
 (#set! reason "the text is run by a shell"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "dynamic-code") (#set! does "timer")
 (#set! names "setTimeout setInterval setImmediate")
 (#set! reason "text is run as code later"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "sets-variable") (#set! does "variables")
 (#set! names "Object.assign")
 (#set! reason "variables for programs to come are set"))

((new_expression constructor: (_) @function) @call
 (#set! rule "dynamic-code") (#set! does "worker")
 (#set! names "Worker worker_threads.Worker SharedWorker")
 (#set! reason "text is run as code in a thread of its own"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "endless-processes") (#set! does "endless")
 (#set! names "child_process.spawn child_process.exec child_process.execFile child_process.fork cluster.fork Bun.spawn cross-spawn execa execa.execa")
 (#set! reason "processes are started without end"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "passed-around") (#set! does "member")
 (#set! names "Reflect.get Reflect.apply Reflect.construct Object.entries Object.values")
 (#set! reason "the function of a powerful module is not known before it runs"))

((subscript_expression object: (_) @function index: (_) @arguments) @call
 (#set! rule "built-name") (#set! does "built")
 (#set! reason "the name of a function is put together when it runs"))

((call_expression function: (_) @function arguments: (arguments) @arguments) @call
 (#set! rule "endless-processes") (#set! does "fork")
 (#set! names "child_process.fork cluster.fork")
 (#set! reason "processes are started without end"))
