"""A script without an event loop."""

import sandboxio

with sandboxio.create_sync("local://", timeout=60) as sandbox:
    print(sandbox.run_code("print(6 * 7)").stdout, end="")

    with sandbox.stream(["seq", "3"]) as process:
        for chunk in process:
            print(chunk.stream, chunk.data)

    try:
        sandbox.run("sleep 999", timeout=0.5)
    except sandboxio.ExecutionTimeout as error:
        print(error.code)

try:
    sandbox.run(["true"])
except sandboxio.SandboxGone as error:
    print(error.message)
