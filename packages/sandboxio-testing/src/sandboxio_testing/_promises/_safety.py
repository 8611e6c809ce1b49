"""What keeps code inside, secrets hidden, and errors honest."""

from __future__ import annotations

from ._clause import must, should

CLAUSES = (
    # ----- capability
    must(
        "capability.floor",
        "A backend runs commands and enforces a network policy: less is no backend.",
    ),
    must("capability.proven", "Every capability that is declared is one that a clause proves."),
    must("capability.sandbox-agrees", "A sandbox declares the capabilities of its backend."),
    must(
        "capability.undeclared",
        "What an undeclared capability would do raises `CapabilityNotSupported`, and does nothing.",
    ),
    # ----- network
    must("network.default", "Without a policy, all egress is denied."),
    must(
        "network.reported",
        "`sandbox.policy` tells the network policy that was asked for, and what enforces it.",
    ),
    must("network.verified", "The network policy was verified on the running sandbox."),
    must(
        "network.deny-loopback", "A denied sandbox does not reach services on the host's loopback."
    ),
    must("network.deny-host", "A denied sandbox does not reach services on the host's addresses."),
    must("network.deny-ipv6", "A denied sandbox does not reach IPv6 services of the host."),
    must("network.deny-udp", "A denied sandbox does not reach anything by UDP."),
    must("network.deny-names", "A denied sandbox resolves no names of the outside."),
    must(
        "network.deny-metadata", "A denied sandbox does not reach the metadata address of a cloud."
    ),
    must(
        "network.deny-abstract",
        "A denied sandbox does not reach abstract Unix sockets of the host.",
    ),
    must("network.own-loopback", "Commands of one sandbox reach each other on its own loopback."),
    must("network.apart", "A denied sandbox does not reach a service of another sandbox."),
    must(
        "network.provider",
        "The provider itself says that a denied sandbox has no network of the host's.",
    ),
    must(
        "network.allow", 'With `egress="allow"` the outside is reached, or the create is refused.'
    ),
    must(
        "network.unknown-refused",
        "An unknown or reserved egress is refused, and nothing is created.",
    ),
    must(
        "network.allowlist-refused",
        "A list of allowed hosts is refused by a backend that cannot enforce it, and nothing is created.",
    ),
    must(
        "network.allowlist",
        "A list of allowed hosts lets these be reached, and nothing else.",
    ),
    must(
        "network.ingress-refused",
        "Ports for ingress are refused by a backend that cannot open them, and nothing is created.",
    ),
    # ----- caps
    must("caps.by-default", "Memory and processes are capped although nobody asked."),
    must(
        "caps.reported",
        "`sandbox.policy` tells each cap that was asked for, with what enforces it.",
    ),
    must("caps.provider", "The provider itself says the same of the caps as the policy."),
    must(
        "caps.memory",
        "A command cannot hold more memory than the cap, and the sandbox stays usable.",
    ),
    must(
        "caps.memory-named",
        "A command that the memory cap kills raises `OutOfMemory`, and never returns a bare 137.",
    ),
    must(
        "caps.processes",
        "More processes than the cap cannot be started, and the sandbox stays usable.",
    ),
    must("caps.disk", "More than the disk cap cannot be stored, and raises `DiskFull`."),
    must(
        "caps.unset",
        "A cap cannot be unset, and a value that is no cap is refused before anything is created.",
    ),
    must(
        "caps.unenforced-refused",
        "A cap that the backend does not enforce is refused, and nothing is created.",
    ),
    must(
        "caps.of-the-template",
        "Where the template owns the caps, asking for others raises `ConfigurationError`.",
    ),
    must("caps.gpu-refused", "A GPU is refused by a backend without one, and nothing is created."),
    # ----- isolation
    must("isolation.reported", "Backend, sandbox and policy report one isolation tier."),
    must(
        "isolation.required",
        "`require_isolation` of a higher tier raises `ConfigurationError`, and nothing is created.",
    ),
    must("isolation.satisfied", "`require_isolation` of the backend's own tier is accepted."),
    must(
        "isolation.unknown",
        "`require_isolation=UNKNOWN` raises `ConfigurationError`, and an unknown tier satisfies nothing.",
    ),
    must("isolation.warned", "Creating on a backend of an unknown tier warns, once."),
    must(
        "isolation.not-privileged", "The provider gave the sandbox no rights beyond the ordinary."
    ),
    must("isolation.no-mount", "Code on a shared kernel cannot mount file systems."),
    must(
        "isolation.no-host-files",
        "Files of the user, of the temporary and of the working directory of the host are not seen inside.",
    ),
    must(
        "isolation.no-host-paths",
        "The provider mounts no writable directory and no control socket of the host.",
    ),
    must("isolation.no-host-processes", "Processes of the host are not seen inside."),
    must(
        "isolation.sandboxes-apart", "Files and processes of one sandbox are not seen in another."
    ),
    should(
        "isolation.no-user-namespaces",
        "Code on a shared kernel cannot make a user namespace, in which it would have rights.",
    ),
    should("isolation.no-raw-sockets", "Code on a shared kernel cannot open raw sockets."),
    should(
        "isolation.no-new-privileges",
        "Code on a shared kernel cannot gain privileges by executing a program.",
    ),
    # ----- secrets
    must("secrets.given", "Commands have the secrets in their environment."),
    must("secrets.reprs", "No repr shows a secret."),
    must("secrets.errors", "No error, hint, note or traceback text shows a secret."),
    must("secrets.logs", "No log record shows a secret, at any level."),
    must("secrets.of-a-call", "A credential in the environment of a call is masked like a secret."),
    must("secrets.after-connect", "A handle from `connect()` masks the secrets too."),
    must("secrets.provider", "The provider shows no secret to whoever may list sandboxes."),
    # ----- errors
    must(
        "errors.shape",
        "Every error has a code, a hint, the address of its page, and says whether to try again.",
    ),
    must("errors.no-builtins", "No wrong argument raises anything but a `SandboxError`."),
    must(
        "errors.cause",
        "A provider's failure comes as a `SandboxError` that has the provider's own as its cause.",
    ),
    must(
        "errors.credential",
        "A missing credential raises `AuthError`, which names its environment variable.",
    ),
    # ----- audit
    must(
        "audit.each-operation",
        "Each operation is recorded once, with its kind, sandbox, backend and tier.",
    ),
    must("audit.lifecycle", "Creating, connecting to and killing a sandbox are recorded."),
    must("audit.failures", "An operation that fails is recorded too."),
    must(
        "audit.command",
        "The record of a command has its arguments, its exit code and how much it printed.",
    ),
    must("audit.stream", "The record of a stream has its exit code and how much came out of it."),
    must(
        "audit.abandoned",
        "A stream that nobody leaves is recorded when its sandbox ends.",
    ),
    must(
        "audit.denials",
        "A record counts the blocked attempts to reach the network, or says that it does not know.",
    ),
    must(
        "audit.not-mangled",
        "A short value of the environment changes nothing else in a record.",
    ),
    must("audit.code", "The record of code has its hash, and the code only if that was asked for."),
    must("audit.tenant", "Records carry the tenant and the session of the metadata."),
    must("audit.no-secret", "No record shows a secret, wherever it was used."),
    must("audit.sink-fails", "A sink that fails warns, or fails the operation, as configured."),
    # ----- sync
    must(
        "sync.works",
        "The sync facade creates, runs, streams, moves files and ends like the async one.",
    ),
    must(
        "sync.errors", "Errors come through the sync facade as the same classes with their causes."
    ),
    must("sync.in-a-running-loop", "The sync facade works inside a running event loop."),
    must("sync.frees-its-thread", "The thread of a sync sandbox is gone after `close()`."),
)
