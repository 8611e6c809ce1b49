"""From a located structure to a checked routing file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .._observe.redaction import credentials_in, is_credential_name
from ..errors import ConfigurationError
from ..models import IsolationTier, NetworkPolicy
from ._file import BackendEntry, IsolationClass, Limits, Policy, RouteRule, RoutingFile
from ._tree import Item, Section, plain

__all__ = ["REFERENCE", "load"]

REFERENCE = "os.environ/"
"""How a secret is referred to: ``os.environ/E2B_API_KEY``."""

MAX_LIFETIME = 7 * 24 * 3600.0
"""Seconds; the engine takes no timeout above it."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load(root: Item) -> RoutingFile:
    """Check everything that can be checked without any backend.

    Raises:
        ConfigurationError: Something is wrong; it names the line and the fix.
    """
    if root.value is None:
        raise root.problem("it is empty.", "Give it backends, isolation_classes and default_class.")
    _refuse_secrets(root)
    top = Section(root, "the routing file")
    backends = _backends(top.require("backends", "Add backends: with at least one entry."))
    classes = _classes(
        top.require(
            "isolation_classes", "Add isolation_classes:, for example standard: { backend: NAME }."
        ),
        backends,
    )
    routes = _routes(top.take("routes"), classes)
    default = top.require(
        "default_class", f"Add default_class: with one of {', '.join(sorted(classes))}."
    )
    policy = _policy(top.take("policy"))
    top.done()
    return RoutingFile(
        backends=backends,
        classes=classes,
        routes=routes,
        default_class=_one_of(default, "default_class", classes, "isolation class"),
        policy=policy,
    )


def _one_of(item: Item, what: str, known: Iterable[str], kind: str) -> str:
    name = item.text(what)
    if name not in known:
        raise item.problem(
            f"there is no {kind} {name!r}.", f"Use one of: {', '.join(sorted(known))}."
        )
    return name


# --- secrets --------------------------------------------------------------------------------------


def _refuse_secrets(item: Item, key: str = "") -> None:
    """Refuse every value that looks like a credential, wherever it stands."""
    if isinstance(item.value, dict):
        for name, value in item.value.items():
            _refuse_secrets(value, name)
    elif isinstance(item.value, list):
        for value in item.value:
            _refuse_secrets(value, key)
    # By its value alone: what a key's name says is judged where the key's meaning is known.
    elif isinstance(item.value, str) and credentials_in({"": item.value}):
        raise _literal_secret(item)


def _literal_secret(item: Item) -> ConfigurationError:
    return item.problem(
        "this looks like a literal secret.",
        f"Put the secret into an environment variable, and write {REFERENCE}NAME here.",
    )


def _reference(item: Item) -> str:
    """Return the variable that a secret is read from."""
    text = item.value
    if not isinstance(text, str) or not text.startswith(REFERENCE):
        raise _literal_secret(item)
    name = text.removeprefix(REFERENCE)
    if not _VARIABLE.fullmatch(name):
        raise item.problem(
            "what follows os.environ/ is not the name of an environment variable.",
            f"Write for example {REFERENCE}E2B_API_KEY.",
        )
    return name


# --- backends -------------------------------------------------------------------------------------


def _backends(item: Item) -> dict[str, BackendEntry]:
    entries = {name: _entry(name, entry) for name, entry in item.section("backends").items()}
    if not entries:
        raise item.problem("there is no backend.", "Add one, for example here: { adapter: local }.")
    return entries


def _entry(name: str, item: Item) -> BackendEntry:
    what = f"the backend {name!r}"
    section = Section(item, what)
    adapter = section.require("adapter", "Add adapter:, for example adapter: docker.")
    if not adapter.text("adapter").isidentifier():
        raise adapter.problem("this is not the name of a backend.", "For example docker or local.")
    priority, cost = section.take("priority"), section.take("cost_tier")
    regions, enabled = section.take("regions"), section.take("enabled")
    template, image = section.take("template"), section.take("image")
    if template is not None and image is not None:
        raise image.problem("image and template are the same thing.", "Remove one of the two.")
    named = image if template is None else template
    options: dict[str, object] = {}
    credentials: dict[str, str] = {}
    for key, value in section.rest().items():
        if is_credential_name(key):
            credentials[key] = _reference(value)
            continue
        if isinstance(value.value, str) and value.value.startswith(REFERENCE):
            raise value.problem(
                "only a secret is read from the environment.", f"Write the value of {key} here."
            )
        if value.value is None:
            raise value.problem(f"{key} is empty.", f"Give {key} a value, or leave the key out.")
        options[key] = plain(value)
    return BackendEntry(
        name=name,
        adapter=adapter.text("adapter"),
        place=item.place,
        template=None if named is None else named.text("template"),
        options=options,
        credentials=credentials,
        priority=0 if priority is None else priority.whole("priority"),
        cost_tier=0 if cost is None else _not_negative(cost, "cost_tier"),
        regions=() if regions is None else _texts(regions, "regions"),
        enabled=True if enabled is None else enabled.flag("enabled"),
    )


def _not_negative(item: Item, what: str) -> int:
    value = item.whole(what)
    if value < 0:
        raise item.problem(f"{what} must not be negative.", "0 is the cheapest tier.")
    return value


def _texts(item: Item, what: str) -> tuple[str, ...]:
    return tuple(each.text(f"an item of {what}") for each in item.items(what))


# --- classes and routes ---------------------------------------------------------------------------


def _classes(item: Item, backends: Mapping[str, BackendEntry]) -> dict[str, IsolationClass]:
    classes: dict[str, IsolationClass] = {}
    for name, value in item.section("isolation_classes").items():
        section = Section(value, f"the class {name!r}")
        backend = section.require("backend", f"Add backend: with one of {', '.join(backends)}.")
        tier, failover = section.take("isolation"), section.take("failover")
        section.done()
        classes[name] = IsolationClass(
            name=name,
            backend=_one_of(backend, "backend", backends, "backend"),
            isolation=None if tier is None else _tier(tier),
            failover=True if failover is None else failover.flag("failover"),
        )
    if not classes:
        raise item.problem(
            "there is no class.", "Add one, for example standard: { backend: NAME }."
        )
    return classes


def _tier(item: Item) -> IsolationTier:
    tiers = {tier.value: tier for tier in IsolationTier if tier is not IsolationTier.UNKNOWN}
    return tiers[_one_of(item, "isolation", tiers, "isolation tier")]


def _routes(item: Item | None, classes: Mapping[str, IsolationClass]) -> tuple[RouteRule, ...]:
    if item is None:
        return ()
    rules: list[RouteRule] = []
    for value in item.items("routes"):
        section = Section(value, "a route")
        match = section.require("match", "Add match:, for example match: { tool: run_python }.")
        target = section.require("class", f"Add class: with one of {', '.join(sorted(classes))}.")
        section.done()
        labels = {
            key: label.text(f"the label {key!r}") for key, label in match.section("match").items()
        }
        if not labels:
            raise match.problem("match is empty.", "What matches everything is the default_class.")
        rules.append(
            RouteRule(match=labels, class_name=_one_of(target, "class", classes, "isolation class"))
        )
    return tuple(rules)


# --- policy ---------------------------------------------------------------------------------------


def _policy(item: Item | None) -> Policy:
    if item is None:
        return Policy()
    section = Section(item, "policy")
    spend = section.take("spend")
    if spend is not None:
        raise spend.problem(
            "spend is enforced by a server only, and this library is none.",
            "Remove spend; set the budget at the provider.",
        )
    network, limits = section.take("network"), section.take("limits")
    section.done()
    return Policy(
        network=None if network is None else _network(network),
        limits=Limits() if limits is None else _limits(limits),
    )


def _network(item: Item) -> NetworkPolicy:
    section = Section(item, "policy.network")
    egress, allow, ports = (
        section.take("egress"),
        section.take("allow"),
        section.take("ingress_ports"),
    )
    section.done()
    return NetworkPolicy(
        "allow" if egress is not None and _egress(egress) == "allow" else "deny",
        () if allow is None else _texts(allow, "allow"),
        () if ports is None else tuple(_port(port) for port in ports.items("ingress_ports")),
    )


def _egress(item: Item) -> str:
    return _one_of(item, "egress", ("deny", "allow"), "egress policy")


def _port(item: Item) -> int:
    port = item.whole("a port")
    if not 0 < port < 65536:
        raise item.problem("this is no port.", "A port is between 1 and 65535.")
    return port


def _limits(item: Item) -> Limits:
    section = Section(item, "policy.limits")
    timeout, cpu = section.take("timeout_s"), section.take("cpu")
    if timeout is not None and timeout.positive("timeout_s") > MAX_LIFETIME:
        raise timeout.problem("no sandbox lives that long.", f"At most {MAX_LIFETIME:.0f} seconds.")
    whole: dict[str, int | None] = {}
    for name in ("memory_mb", "disk_mb", "processes"):
        found = section.take(name)
        whole[name] = None if found is None else _at_least_one(found, name)
    section.done()
    return Limits(
        timeout_s=None if timeout is None else timeout.positive("timeout_s"),
        cpu=None if cpu is None else cpu.positive("cpu"),
        memory_mb=whole["memory_mb"],
        disk_mb=whole["disk_mb"],
        processes=whole["processes"],
    )


def _at_least_one(item: Item, what: str) -> int:
    item.positive(what)
    return item.whole(what)
