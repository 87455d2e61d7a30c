; What Python code does that a gate wants to know.
;
; Every pattern is a rule, with an empty line before it. `does` says what is done with what was matched (see
; src/code/tree.rs), `names` which calls or references are meant, with imports and aliases resolved (`*` stands for
; anything), and `reason` why.

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "runs-shell") (#set! does "shell")
 (#set! names "os.system os.popen os.popen2 os.popen3 os.popen4 posix.system subprocess.getoutput subprocess.getstatusoutput commands.getoutput commands.getstatusoutput asyncio.create_subprocess_shell asyncio.subprocess.create_subprocess_shell popen2.popen2 pexpect.spawn pexpect.run platform.popen")
 (#set! reason "the text is run by a shell"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "runs-program") (#set! does "spawn")
 (#set! names "subprocess.run subprocess.call subprocess.Popen subprocess.check_call subprocess.check_output sh.Command plumbum.local invoke.run fabric.local delegator.run")
 (#set! reason "another program is run"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "runs-program") (#set! does "program")
 (#set! names "os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp asyncio.create_subprocess_exec asyncio.subprocess.create_subprocess_exec")
 (#set! reason "another program is run"))

((call function: (_) @function) @call
 (#set! rule "runs-program") (#set! does "ask")
 (#set! names "os.execl os.execle os.execlp os.execlpe os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe os.startfile pty.spawn pty.fork os.fork os.forkpty os.vfork _posixsubprocess.fork_exec")
 (#set! reason "another process is started in a way that cannot be judged"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "dynamic-code") (#set! does "code")
 (#set! names "eval exec builtins.eval builtins.exec __builtins__.eval __builtins__.exec")
 (#set! reason "text is run as code"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "dynamic-code") (#set! does "ask")
 (#set! names "runpy.run_path runpy.run_module code.interact code.InteractiveInterpreter().runcode types.FunctionType types.CodeType marshal.loads compile builtins.compile execfile imp.load_source imp.load_dynamic imp.load_module importlib.machinery.*Loader importlib.machinery.*Loader().* zipimport.zipimporter webbrowser.register importlib.util.spec_from_file_location *__builtins__* *.__subclasses__ *.?")
 (#set! reason "code that is not in this text is run"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "dynamic-import") (#set! does "import")
 (#set! names "__import__ importlib.import_module importlib.__import__ builtins.__import__")
 (#set! reason "the module to be loaded is not known before it runs"))

((attribute attribute: (identifier) @name) @call
 (#any-of? @name "__subclasses__" "__bases__" "__mro__" "__globals__" "__builtins__" "__code__" "__closure__" "__getattribute__" "__loader__")
 (#set! rule "inner-workings") (#set! does "ask")
 (#set! reason "the inner workings of objects lead to everything"))

((identifier) @call
 (#eq? @call "__builtins__")
 (#set! rule "inner-workings") (#set! does "ask")
 (#set! reason "the table of builtins leads to everything"))

([(attribute) (identifier)] @reference
 (#set! rule "passed-around") (#set! does "reference")
 (#set! names "os.system os.popen posix.system subprocess.run subprocess.call subprocess.Popen subprocess.check_call subprocess.check_output subprocess.getoutput os.execv os.execvp os.execve pty.spawn os.remove os.unlink shutil.rmtree os.fork ctypes.CDLL ctypes.cdll ctypes.pydll ctypes.pythonapi eval exec")
 (#set! reason "a function that starts or removes things is passed around"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "removes") (#set! does "remove")
 (#set! names "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree os.truncate send2trash.send2trash")
 (#set! reason "files are removed"))

((call function: (attribute object: (_) @receiver) @function) @call
 (#set! rule "removes") (#set! does "remove-receiver")
 (#set! names "pathlib.*.unlink pathlib.*.rmdir pathlib.*.rmtree")
 (#set! reason "files are removed"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "opens") (#set! does "open")
 (#set! names "open io.open codecs.open os.open builtins.open gzip.open pathlib.Path")
 (#set! reason "a file is opened"))

((call function: (attribute object: (_) @receiver) @function) @call
 (#set! rule "opens") (#set! does "read-receiver")
 (#set! names "pathlib.*.read_text pathlib.*.read_bytes pathlib.*.open")
 (#set! reason "a file is read"))

((call function: (attribute object: (_) @receiver) @function) @call
 (#set! rule "writes") (#set! does "write-receiver")
 (#set! names "pathlib.*.write_text pathlib.*.write_bytes pathlib.*.touch pathlib.*.mkdir pathlib.*.symlink_to pathlib.*.rename pathlib.*.chmod")
 (#set! reason "a file is written"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "changes") (#set! does "change")
 (#set! names "os.chmod os.chown os.lchown shutil.chown")
 (#set! reason "rights of a file are changed"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "links") (#set! does "link")
 (#set! names "os.symlink os.link shutil.copy shutil.copy2 shutil.copyfile shutil.copytree os.rename os.replace shutil.move")
 (#set! reason "a file gets another name"))

((call function: (_) @function) @call
 (#set! rule "privilege") (#set! does "ask")
 (#set! names "os.setuid os.setgid os.seteuid os.setegid os.setreuid os.setresuid os.setgroups os.chroot os.mount os.unshare os.setns")
 (#set! reason "the process changes who it runs as"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "signals") (#set! does "signal")
 (#set! names "os.kill os.killpg")
 (#set! reason "many processes are reached at once"))

((call function: (_) @function) @call
 (#set! rule "native-code") (#set! does "ask")
 (#set! names "ctypes.CDLL ctypes.PyDLL ctypes.WinDLL ctypes.OleDLL ctypes.cdll.* ctypes.pydll.* ctypes.windll.* ctypes.LibraryLoader ctypes.util.find_library ctypes.pythonapi.* ctypes.memmove ctypes.memset ctypes.string_at ctypes.cast ctypes.CFUNCTYPE ctypes.PYFUNCTYPE ctypes.*.LoadLibrary ctypes.*.from_address cffi.FFI cffi.*.dlopen cffi.FFI().dlopen os.dup2")
 (#set! reason "functions of the system are called directly"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "sends-environment") (#set! does "send")
 (#set! names "requests.* urllib.request.* httpx.* aiohttp.* http.client.* socket.* smtplib.* ftplib.* paramiko.* boto3.* telnetlib.* urllib3.*")
 (#set! reason "the environment, which may hold secrets, is sent away"))

((assignment left: (_) @target right: (_) @value)
 (#set! rule "sets-variable") (#set! does "environment")
 (#set! names "os.environ.*")
 (#set! reason "a variable for programs to come is set"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "sets-variable") (#set! does "putenv")
 (#set! names "os.putenv os.environ.setdefault os.environ.__setitem__")
 (#set! reason "a variable for programs to come is set"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "sets-variable") (#set! does "variables")
 (#set! names "os.environ.update")
 (#set! reason "variables for programs to come are set"))

((import_statement name: [(dotted_name) @name (aliased_import name: (dotted_name) @name)]) @call
 (#any-of? @name "_ctypes" "cffi" "_cffi_backend")
 (#set! rule "native-code") (#set! does "ask")
 (#set! reason "functions of the system can be called directly"))

((import_from_statement module_name: (dotted_name) @name) @call
 (#any-of? @name "_ctypes" "cffi" "_cffi_backend")
 (#set! rule "native-code") (#set! does "ask")
 (#set! reason "functions of the system can be called directly"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "loads-objects") (#set! does "data")
 (#set! names "pickle.loads _pickle.loads cPickle.loads dill.loads cloudpickle.loads jsonpickle.decode yaml.unsafe_load yaml.unsafe_load_all")
 (#set! reason "data becomes objects, and may run code while it does"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "loads-objects") (#set! does "loader")
 (#set! names "yaml.load yaml.load_all")
 (#set! reason "data becomes objects, and may run code while it does"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "endless-processes") (#set! does "endless")
 (#set! names "subprocess.Popen os.popen os.fork os.forkpty os.spawn* os.posix_spawn* multiprocessing.Process multiprocessing.Process().start multiprocessing.*.Process asyncio.create_subprocess_* concurrent.futures.ProcessPoolExecutor")
 (#set! reason "processes are started without end"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "passed-around") (#set! does "member")
 (#set! names "getattr builtins.getattr")
 (#set! reason "the function of a powerful module is not known before it runs"))

((subscript value: (_) @function subscript: (_) @arguments) @call
 (#set! rule "built-name") (#set! does "built")
 (#set! reason "the name of a function is put together when it runs"))

((call function: (_) @function arguments: (argument_list) @arguments) @call
 (#set! rule "endless-processes") (#set! does "fork")
 (#set! names "os.fork os.vfork os.forkpty pty.fork")
 (#set! reason "processes are started without end"))
