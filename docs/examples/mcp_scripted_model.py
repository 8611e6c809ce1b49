"""What a model does with the MCP server, with the model replaced by a script.

A client of your own looks like this: it starts the server, hands the tools to the model, and hands
what they return back to it. Here the "model" is a generator, so that no key is needed.
"""

import sys
from collections.abc import Generator

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

SERVER = StdioServerParameters(
    command=sys.executable, args=["-m", "sandboxio_mcp", "--backend", "local://"]
)

Step = tuple[str, dict[str, object]]


def model() -> Generator[Step, str, str]:
    """Choose tools, and learn from what they answer."""
    yield "write_file", {"path": "prices.csv", "content": "apple,3\npear,5\n"}
    seen = yield "read_file", {"path": "price.csv"}
    if "SBX_E1701" in seen:  # a typing error; the fix says to look
        yield "list_files", {"path": "."}
    program = "rows = [line.split(',') for line in open('prices.csv')]\n"
    seen = yield "run_python", {"code": f"{program}print(sum(int(price) for _, price in rows))"}
    return f"The prices add up to {seen.splitlines()[-1]}."


def text_of(result: CallToolResult) -> str:
    """Return what a model without eyes gets of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def main() -> None:
    async with Client(SERVER) as client:
        tools = (await client.list_tools()).tools
        print("tools:", *(tool.name for tool in tools))
        thinking = model()
        try:
            name, arguments = next(thinking)
            while True:
                result = await client.call_tool(name, arguments)
                assert isinstance(result, CallToolResult)
                print(f"{name}: {text_of(result).splitlines()[0]}")
                name, arguments = thinking.send(text_of(result))
        except StopIteration as done:
            print(done.value)


if __name__ == "__main__":
    anyio.run(main)
