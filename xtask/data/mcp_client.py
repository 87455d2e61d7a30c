"""The server by the official Python SDK: what it offers, what it does, whom it asks."""
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client, types


async def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve() / "home"
        project = home / "project"
        (home / ".ssh").mkdir(parents=True)
        project.mkdir()
        (home / ".ssh" / "config").write_text("Host treasure\n")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "RINGFENCE_HOME": str(home / ".ringfence"),
        }
        server = StdioServerParameters(
            command=program, args=["mcp"], cwd=str(home), env=environment
        )
        asked: list[str] = []
        progress: list[float] = []

        async def elicit(context, params):
            asked.append(params.message)
            return types.ElicitResult(action="accept", content={"decision": "once"})

        async def roots(context):
            return types.ListRootsResult(roots=[types.Root(uri=project.as_uri())])

        async def hears(done, total, message):
            progress.append(done)

        async with stdio_client(server) as (read, write):
            async with ClientSession(
                read, write, elicitation_callback=elicit, list_roots_callback=roots
            ) as session:
                await session.initialize()
                tools = {tool.name: tool for tool in (await session.list_tools()).tools}
                for name in ("bash", "run_code", "read", "write", "edit", "apply_patch", "list",
                             "search", "jobs", "sandbox_status", "request_permission"):
                    assert name in tools, f"{name} is not offered: {sorted(tools)}"
                    assert tools[name].output_schema and tools[name].annotations, name

                # The SDK checks each structured result against the schema of its tool.
                async def call(name, **arguments):
                    return await session.call_tool(name, arguments, progress_callback=hears)

                await call("bash", command="cd /; NAME=ada")
                result = await call("bash", command="echo $NAME; pwd")
                assert result.structured_content["stdout"] == "ada\n/\n", result
                result = await call("sandbox_status")
                assert result.structured_content["data"]["project"] == str(project), result
                result = await call("run_code", code="print(6 * 7)")
                assert result.content[0].text == "42\n", result
                result = await call("bash", command="sleep 2.5; exit 3")
                assert result.is_error and result.structured_content["exitCode"] == 3, result
                assert progress and progress == sorted(progress), progress
                await call("write", path="a.txt", content="one\n")
                result = await session.read_resource((project / "a.txt").as_uri())
                assert result.contents[0].text == "one\n", result
                result = await call("bash", command="cat ~/.ssh/config")
                assert result.structured_content["stdout"] == "Host treasure\n", result
                assert len(asked) == 1 and ".ssh/config" in asked[0], asked
                try:
                    await call("approve", id="x")
                except MCPError:
                    pass
                else:
                    raise AssertionError("there is a tool that approves")


asyncio.run(main(sys.argv[1]))
print("the Python SDK is content")
