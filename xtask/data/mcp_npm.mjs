// The server by two clients from npm that are not ours: the official Inspector's command line and the conformance suite.
// Arguments: the program, the directory where both are installed, and the list of scenarios that need a server of their own.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [program, tools, expected] = process.argv.slice(2);
const home = join(realpathSync(mkdtempSync(join(tmpdir(), "mcp-npm-"))), "home");
const project = join(home, "project");
const token = "0123456789abcdef-of-the-tests";
const environment = {
  PATH: process.env.PATH,
  HOME: home,
  RINGFENCE_HOME: join(home, ".ringfence"),
  MCP_INSPECTOR_SECRET_STORE: "memory",
};

/** Runs a package's program with this node; gives its output and exit code. */
function run(name, args) {
  const script = join(tools, "node_modules", ".bin", name);
  const options = { cwd: home, env: environment, maxBuffer: 64 << 20, timeout: 300_000 };
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, stdout, stderr });
    });
  });
}

/** One request by the Inspector to a server of its configuration. */
async function inspect(server, method, ...args) {
  const config = join(home, "servers.json");
  const all = ["--cli", "--format", "json", "--config", config, "--server", server, "--method", method, ...args];
  const { code, stdout, stderr } = await run("mcp-inspector", all);
  const shown = `${server} ${method} ${args.join(" ")}: exit ${code}\n${stdout}\n${stderr}`;
  assert.ok(stdout, shown);
  return { code, stderr, shown, result: JSON.parse(stdout).result };
}

const call = (server, tool, args) =>
  inspect(server, "tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(args));

async function inspector(server) {
  const offered = await inspect(server, "tools/list", "--strict");
  assert.equal(offered.code, 0, offered.shown);
  assert.ok(!/^(Warning|Error): tool/m.test(offered.stderr), offered.shown);
  const names = offered.result.tools.map((tool) => tool.name);
  for (const name of ["bash", "run_code", "jobs", "read", "write", "edit", "apply_patch", "list", "search",
    "sandbox_status", "request_permission"]) {
    assert.ok(names.includes(name), `${name} is not offered: ${names}`);
  }
  for (const tool of offered.result.tools) {
    assert.ok(tool.inputSchema && tool.outputSchema && tool.annotations, tool.name);
  }

  let done = await call(server, "bash", { command: "printf '%s\\n' \"$PWD\"; echo one > a.txt" });
  assert.equal(done.code, 0, done.shown);
  assert.equal(done.result.structuredContent.stdout, `${project}\n`, done.shown);
  // The Inspector checks structured content against the schema, and says so on standard error.
  assert.ok(!/schema/i.test(done.stderr), done.shown);
  done = await call(server, "run_code", { code: "print(6 * 7)" });
  assert.equal(done.result.content[0].text, "42\n", done.shown);
  done = await call(server, "bash", { command: "exit 3" });
  assert.ok(done.code === 5 && done.result.isError, done.shown);
  assert.equal(done.result.structuredContent.exitCode, 3, done.shown);
  done = await call(server, "read", { path: "a.txt" });
  assert.match(done.result.structuredContent.stdout, /one/, done.shown);
  // It cannot ask a person, so the agent is told who can answer, and nothing ran.
  done = await call(server, "bash", { command: "git push --force" });
  assert.equal(done.result.structuredContent.data.status, "requires_permission", done.shown);
  done = await call(server, "sandbox_status", {});
  assert.equal(done.result.structuredContent.data.project, project, done.shown);

  done = await inspect(server, "resources/templates/list");
  assert.equal(done.result.resourceTemplates[0].uriTemplate, `file://${project}/{+path}`, done.shown);
  done = await inspect(server, "resources/list");
  assert.ok(done.result.resources.some((item) => item.uri === "ringfence://session/ledger"), done.shown);
  done = await inspect(server, "resources/read", "--uri", `file://${project}/a.txt`);
  assert.equal(done.result.contents[0].text, "one\n", done.shown);
  done = await inspect(server, "logging/setLevel", "--log-level", "debug");
  assert.equal(done.code, 0, done.shown);
  console.log(`the Inspector is content with ${server}`);
}

/** The conformance suite has no token to give: this adds it to each request, and changes nothing else. */
function relay(port) {
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    const { url: path, method } = request;
    const onward = http.request({ hostname: "127.0.0.1", port, path, method, headers }, (reply) => {
      response.writeHead(reply.statusCode, reply.headers);
      response.flushHeaders();
      reply.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function conformance(port) {
  const between = await relay(port);
  const url = `http://127.0.0.1:${between.address().port}/mcp`;
  const args = ["server", "--url", url, "--suite", "all", "--expected-failures", expected];
  const { code, stdout, stderr } = await run("conformance", [...args, "-o", join(home, "results")]);
  between.close();
  between.closeAllConnections();
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  // A suite that ran nothing would be content too.
  for (const name of ["server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list",
    "server-sse-multiple-streams", "resources-list", "prompts-list", "dns-rebinding-protection"]) {
    assert.ok(stdout.includes(`✓ ${name}:`), `${name} did not pass:\n${stdout}`);
  }
  console.log("the conformance suite is content with all that asks for no server of its own");
}

/** A server by HTTP, on a port that it chose. */
async function serve() {
  writeFileSync(join(home, "token"), token);
  const args = ["mcp", "--http", "127.0.0.1:0", "--token-file", join(home, "token")];
  const server = spawn(program, args, { cwd: project, env: environment, stdio: ["ignore", "ignore", "pipe"] });
  const lines = createInterface({ input: server.stderr });
  for await (const line of lines) {
    const port = line.match(/listening on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    if (port) {
      server.stderr.resume();
      return { server, port };
    }
  }
  throw new Error("the server did not say where it listens");
}

mkdirSync(project, { recursive: true });
let served;
try {
  served = await serve();
  const servers = {
    stdio: { type: "stdio", command: program, args: ["mcp", "--project", project], env: environment },
    http: {
      type: "streamable-http",
      url: `http://127.0.0.1:${served.port}/mcp`,
      headers: { Authorization: `Bearer ${token}` },
    },
  };
  writeFileSync(join(home, "servers.json"), JSON.stringify({ mcpServers: servers }));
  await inspector("stdio");
  await inspector("http");
  await conformance(served.port);
} finally {
  served?.server.kill();
  rmSync(join(home, ".."), { recursive: true, force: true });
}
