"""A model that knows one conversation: it asks the agent for one command after another, and then says that it is done.

It speaks the streaming protocols of Anthropic (Messages), OpenAI (Responses) and Google (streamGenerateContent). The
file `heard` in its directory has what a model would have been told: the answer of the agent's to each command, and the
key that it came with.
"""

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

commands = sys.argv[1:]
KEYS = ["x-api-key", "authorization", "x-goog-api-key"]


def texts(value):
    """All text in a part of a conversation."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(texts(part) for part in value)
    if isinstance(value, dict):
        return "".join(texts(part) for key, part in value.items() if key not in ("type", "id", "name"))
    return ""


def anthropic(body):
    parts = [part for turn in body["messages"] if isinstance(turn["content"], list) for part in turn["content"]]
    done = [texts(part["content"]) for part in parts if part["type"] == "tool_result"]
    has_shell = next((tool["name"] for tool in body.get("tools", []) if tool["name"].lower() == "bash"), None)
    return done, has_shell


def anthropic_says(shell, number, command):
    def event(kind, **more):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    start = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    if command is None:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "all done"}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": shell, "input": {}}
        asked = json.dumps({"command": command, "description": "as asked"})
        delta = {"type": "input_json_delta", "partial_json": asked}
    why = "end_turn" if command is None else "tool_use"
    return "".join([
        event("message_start", message=start),
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta=delta),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": why, "stop_sequence": None}, usage={"output_tokens": 1}),
        event("message_stop"),
    ])


def openai(body):
    done = [texts(item["output"]) for item in body["input"] if item["type"] == "function_call_output"]
    names = [tool.get("name") for tool in body.get("tools", [])]
    return done, next((name for name in ("exec_command", "shell_command", "shell") if name in names), None)


def openai_says(shell, number, command):
    def event(kind, **more):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    if command is None:
        item = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "all done", "annotations": []}]}
    else:
        asked = {"exec_command": {"cmd": command}, "shell_command": {"command": command},
                 "shell": {"command": ["bash", "-c", command]}}[shell]
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "name": shell,
                "arguments": json.dumps(asked), "status": "completed"}
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
             "total_tokens": 2}
    return "".join([
        event("response.created", response={"id": f"r{number}"}),
        event("response.output_item.done", output_index=0, item=item),
        event("response.completed", response={"id": f"r{number}", "usage": usage}),
    ])


def google(body):
    parts = [part for turn in body["contents"] for part in turn.get("parts", [])]
    done = [texts(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
    tools = [tool["name"] for tools in body.get("tools", []) for tool in tools.get("functionDeclarations", [])]
    return done, "run_shell_command" if "run_shell_command" in tools else None


def google_says(shell, number, command):
    part = {"text": "all done"}
    if command is not None:
        part = {"functionCall": {"name": shell, "args": {"command": command, "description": "as asked"}}}
    answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
              "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
    return f"data: {json.dumps(answer)}\n\n"


PROTOCOLS = [
    ("/v1/messages", anthropic, anthropic_says),
    ("/v1/responses", openai, openai_says),
    (":streamGenerateContent", google, google_says),
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.split("?")[0]
        for end, read, say in PROTOCOLS:
            if path.endswith(end):
                done, shell = read(body)
                # A question beside the conversation has no tools: titles, topics.
                command = commands[len(done)] if shell and len(done) < len(commands) else None
                if shell:
                    keys = [self.headers[name] for name in KEYS if self.headers[name]]
                    with open("heard", "w") as file:
                        json.dump({"answers": done, "keys": keys}, file)
                return self.answer("text/event-stream", say(shell, len(done), command))
        self.answer("application/json", "{}")

    def do_GET(self):
        self.answer("application/json", '{"data": [], "models": []}')

    def do_HEAD(self):
        self.answer("application/json", "")

    def answer(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
