"""The routing file: what loads, and what each bad one is told."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandboxio.errors import AuthError, ConfigurationError, NoRoute
from sandboxio.models import IsolationTier, NetworkPolicy
from sandboxio.routing import Router, RouterTuning
from sandboxio.routing._file import RoutingFile
from sandboxio.routing._load import load
from sandboxio.routing._tree import from_data
from sandboxio.routing._yaml import MAX_BYTES, tree_of

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "routing"

SPECIFIED = """\
# sandboxio-routing.yaml
backends:
  docker-local: { adapter: docker, image: "python:3.12-slim" }
  e2b-fast:     { adapter: e2b, template: code-interpreter, api_key: os.environ/E2B_API_KEY }
  modal-gpu:    { adapter: modal, gpu: T4, api_key: os.environ/MODAL_TOKEN }

isolation_classes:            # cf. Kubernetes RuntimeClass
  standard:  { backend: docker-local }    # trusted / dev
  sandboxed: { backend: modal-gpu }       # gVisor tier
  isolated:  { backend: e2b-fast }        # microVM tier — untrusted multi-tenant

routes:                       # first match wins
  - match: { tool: run_python }
    class: isolated
  - match: { tool: data_transform }
    class: sandboxed
  - match: { tenant_tier: enterprise }
    class: isolated

default_class: standard       # mandatory

policy:
  network: { egress: deny }
  limits:  { timeout_s: 300, memory_mb: 1024 }
"""
SPEND = "  spend:   { per_tenant_daily_usd: 50 }    # server-mode only\n"

SMALL = """\
backends:
  here: { adapter: local }
isolation_classes:
  standard: { backend: here }
default_class: standard
"""


def loaded(text: str) -> RoutingFile:
    return load(tree_of(text))


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "routing.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_specified_file_loads_as_it_is_written() -> None:
    file = loaded(SPECIFIED)
    assert list(file.backends) == ["docker-local", "e2b-fast", "modal-gpu"]
    assert file.backends["docker-local"].template == "python:3.12-slim"
    assert file.backends["e2b-fast"].credentials == {"api_key": "E2B_API_KEY"}
    assert file.backends["modal-gpu"].options == {"gpu": "T4"}
    assert [rule.class_name for rule in file.routes] == ["isolated", "sandboxed", "isolated"]
    assert file.class_for({"tenant_tier": "enterprise"})[0].backend == "e2b-fast"
    assert file.class_for({})[0].backend == "docker-local"
    assert file.policy.network == NetworkPolicy()
    assert (file.policy.limits.timeout_s, file.policy.limits.memory_mb) == (300, 1024)


def test_spend_is_refused_by_its_line_and_nothing_else_of_that_file_is() -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(SPECIFIED + SPEND)
    assert "line 25, policy.spend: spend is enforced by a server only" in str(caught.value)
    assert "Remove spend" in caught.value.hint


async def test_routing_to_a_backend_that_is_not_installed_says_so(tmp_path: Path) -> None:
    router = Router.from_file(write(tmp_path, SPECIFIED))
    with pytest.raises(NoRoute, match="modal-gpu: not installed") as caught:
        await router.create(labels={"tool": "data_transform"})
    assert caught.value.decision is not None
    assert {one.outcome for one in caught.value.decision.candidates} == {"rejected"}


def test_a_dict_needs_nothing_and_means_the_same(tmp_path: Path) -> None:
    data = {
        "backends": {"here": {"adapter": "local"}},
        "isolation_classes": {"standard": {"backend": "here"}},
        "default_class": "standard",
    }
    by_dict, by_file = load(from_data(data)), loaded(SMALL)
    assert by_dict.classes == by_file.classes
    assert by_dict.default_class == by_file.default_class
    assert list(by_dict.backends) == list(by_file.backends)


def test_everything_an_entry_may_say() -> None:
    text = SMALL.replace(
        "{ adapter: local }",
        "{ adapter: local, template: /srv/tree, priority: -3, cost_tier: 2, regions: [eu, us],"
        " enabled: false }",
    ).replace("{ backend: here }", "{ backend: here, isolation: container, failover: false }")
    file = loaded(text)
    entry, chosen = file.backends["here"], file.classes["standard"]
    assert (entry.template, entry.priority, entry.cost_tier) == ("/srv/tree", -3, 2)
    assert (entry.regions, entry.enabled) == (("eu", "us"), False)
    assert (chosen.isolation, chosen.failover) == (IsolationTier.CONTAINER, False)


def test_words_that_older_yaml_reads_as_booleans_are_text() -> None:
    text = SMALL + "routes:\n  - match: { country: no, mode: on }\n    class: standard\n"
    assert dict(loaded(text).routes[0].match) == {"country": "no", "mode": "on"}


BAD: dict[str, tuple[str, str, str]] = {
    # what: (text, part of the message, part of the hint)
    "empty": ("", "it is empty", "backends"),
    "not a mapping": (
        "- a\n",
        "line 1, the routing file: the routing file must be a mapping",
        "key",
    ),
    "unknown key": (SMALL + "clases: {}\n", "line 6, clases: unknown key 'clases'", "routes"),
    "no default": (
        SMALL.replace("default_class: standard\n", ""),
        "no 'default_class'",
        "standard",
    ),
    "unknown default": (
        SMALL.replace("s: standard", "s: other"),
        "line 5, default_class: there is no isolation class 'other'",
        "standard",
    ),
    "default as list": (
        SMALL.replace("s: standard", "s: [standard]"),
        "line 5, default_class: default_class must be text, not a list",
        "quotes",
    ),
    "no backends": (
        SMALL.replace("  here: { adapter: local }\n", ""),
        "line 1, backends: backends must be a mapping, not empty",
        "key: value",
    ),
    "no adapter": (
        SMALL.replace("adapter: local", "priority: 1"),
        "line 2, backends.here: the backend 'here' has no 'adapter'",
        "adapter: docker",
    ),
    "adapter is no name": (
        SMALL.replace("adapter: local", "adapter: local://"),
        "line 2, backends.here.adapter: this is not the name of a backend",
        "docker",
    ),
    "class of no backend": (
        SMALL.replace("backend: here", "backend: there"),
        "line 4, isolation_classes.standard.backend: there is no backend 'there'",
        "here",
    ),
    "unknown key of a class": (
        SMALL.replace("backend: here", "backend: here, tier: 2"),
        "line 4, isolation_classes.standard.tier: unknown key 'tier'",
        "failover",
    ),
    "unknown tier": (
        SMALL.replace("backend: here", "backend: here, isolation: vm"),
        "there is no isolation tier 'vm'",
        "microvm",
    ),
    "route to no class": (
        SMALL + "routes:\n  - match: { a: b }\n    class: other\n",
        "line 8, routes[0].class: there is no isolation class 'other'",
        "standard",
    ),
    "route without match": (
        SMALL + "routes:\n  - class: standard\n",
        "line 7, routes[0]: a route has no 'match'",
        "match:",
    ),
    "route with more": (
        SMALL + "routes:\n  - match: { a: b }\n    class: standard\n    when: x\n",
        "line 9, routes[0].when: unknown key 'when'",
        "class, match",
    ),
    "route that matches all": (
        SMALL + "routes:\n  - match: {}\n    class: standard\n",
        "line 7, routes[0].match: match is empty",
        "default_class",
    ),
    "match of a number": (
        SMALL + "routes:\n  - match: { a: 1 }\n    class: standard\n",
        "line 7, routes[0].match.a: the label 'a' must be text, not a whole number",
        "quotes",
    ),
    "routes as mapping": (
        SMALL + "routes: { a: b }\n",
        "line 6, routes: routes must be a list, not a mapping",
        "[a, b]",
    ),
    "priority as text": (
        SMALL.replace("local }", "local, priority: high }"),
        "line 2, backends.here.priority: priority must be a whole number, not text",
        "10",
    ),
    "priority as bool": (
        SMALL.replace("local }", "local, priority: true }"),
        "must be a whole number, not true or false",
        "10",
    ),
    "negative cost": (
        SMALL.replace("local }", "local, cost_tier: -1 }"),
        "cost_tier must not be negative",
        "0",
    ),
    "regions as text": (
        SMALL.replace("local }", "local, regions: eu }"),
        "regions must be a list, not text",
        "[a, b]",
    ),
    "enabled as yes": (
        SMALL.replace("local }", "local, enabled: yes }"),
        "enabled must be true or false, not text",
        "true or false",
    ),
    "image and template": (
        SMALL.replace("local }", "local, image: a, template: b }"),
        "image and template are the same thing",
        "Remove one",
    ),
    "unknown option": (
        SMALL.replace("local }", "local, runtim: x }"),
        "line 2, backends.here: unknown key 'runtim' for the 'local' backend",
        "priority",
    ),
    "empty option": (
        SMALL.replace("local }", "local, runtime: }"),
        "runtime is empty",
        "leave the key out",
    ),
    "literal secret": (
        SMALL.replace("local }", "local, api_key: e2b_1234567890abcdef1234 }"),
        "line 2, backends.here.api_key: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "plain secret": (
        SMALL.replace("local }", "local, password: hunter2 }"),
        "line 2, backends.here.password: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "secret that is a number": (
        SMALL.replace("local }", "local, token: 12345678 }"),
        "backends.here.token: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "secret elsewhere": (
        SMALL + "routes:\n  - match: { a: ghp_1234567890abcdefghij }\n    class: standard\n",
        "line 7, routes[0].match.a: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "secret in a list": (
        SMALL.replace("local }", "local, regions: [sk-proj-abcdefgh12345678] }"),
        "line 2, backends.here.regions[0]: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "secret in an address": (
        SMALL.replace("local }", "local, host: 'tcp://me:hunter22@engine' }"),
        "backends.here.host: this looks like a literal secret",
        "os.environ/NAME",
    ),
    "reference to nothing": (
        SMALL.replace("local }", "local, api_key: os.environ/ }"),
        "not the name of an environment variable",
        "E2B_API_KEY",
    ),
    "reference for no secret": (
        SMALL.replace("local }", "local, image2: os.environ/IMAGE }"),
        "only a secret is read from the environment",
        "Write the value",
    ),
    "spend": (
        SMALL + "policy: { spend: { x: 1 } }\n",
        "line 6, policy.spend: spend is enforced by a server",
        "Remove spend",
    ),
    "unknown policy": (
        SMALL + "policy: { budget: 1 }\n",
        "line 6, policy.budget: unknown key 'budget'",
        "limits",
    ),
    "unknown limit": (SMALL + "policy: { limits: { ram: 1 } }\n", "unknown key 'ram'", "memory_mb"),
    "limit of zero": (
        SMALL + "policy: { limits: { memory_mb: 0 } }\n",
        "memory_mb must be above 0",
        "leave the key out",
    ),
    "limit as text": (
        SMALL + "policy: { limits: { timeout_s: 5m } }\n",
        "timeout_s must be a number, not text",
        "300",
    ),
    "half a megabyte": (
        SMALL + "policy: { limits: { memory_mb: 0.5 } }\n",
        "memory_mb must be a whole number",
        "10",
    ),
    "endless limit": (
        SMALL + "policy: { limits: { timeout_s: .inf } }\n",
        "timeout_s must be a number, not text",
        "300",
    ),
    "limit of a year": (
        SMALL + "policy: { limits: { timeout_s: 31536000 } }\n",
        "no sandbox lives that long",
        "604800",
    ),
    "learning egress": (
        SMALL + "policy: { network: { egress: learn } }\n",
        "there is no egress policy 'learn'",
        "allow, deny",
    ),
    "no port": (
        SMALL + "policy: { network: { ingress_ports: [70000] } }\n",
        "this is no port",
        "65535",
    ),
    "duplicate key": (
        SMALL + "default_class: standard\n",
        "line 6, the routing file: the key 'default_class' is there already, at line 5",
        "Remove one",
    ),
    "duplicate backend": (
        SMALL.replace("isolation_c", "  here: { adapter: docker }\nisolation_c", 1),
        "line 3, backends: the key 'here' is there already, at line 2",
        "Remove one",
    ),
    "key that is a number": (SMALL + "8: x\n", "a key is a whole number, not text", "quotes"),
    "key that is a list": (SMALL + "? [a]\n: x\n", "a key is a list, not text", "quotes"),
    "alias": (
        SMALL + "routes: &r []\n",
        "line 6, routes: anchors (&name) are refused",
        "values out",
    ),
    "bomb": (
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
        "line 1, a: anchors (&name) are refused",
        "values out",
    ),
    "merge": (SMALL + "<<: *x\n", "aliases (*name) are refused", "Write the value out"),
    "python object": (
        SMALL + "x: !!python/object/apply:os.system ['true']\n",
        "line 6, x: tags (!name) are refused",
        "plain values",
    ),
    "harmless tag": (
        SMALL.replace("local }", "!!str local }"),
        "line 2, backends.here.adapter: tags (!name) are refused",
        "plain values",
    ),
    "own tag": (SMALL + "x: !include other.yaml\n", "line 6, x: tags", "plain values"),
    "two documents": (
        SMALL + "---\n" + SMALL,
        "line 6, the routing file: there is a second document",
        "---",
    ),
    "nested deep": ("a: " + "[" * 5000 + "]" * 5000, "nested more than", "deep"),
    "open bracket": (SMALL + "x: [1, 2\n", "this is not valid YAML", "syntax"),
    "tabs": (SMALL + "x:\n\ty: 1\n", "line 7: this is not valid YAML", "spaces"),
    "control character": (SMALL + "x: \x01\n", "not valid YAML", "UTF-8"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_file_is_told_its_line_and_the_fix(what: str, tmp_path: Path) -> None:
    text, message, fix = BAD[what]
    with pytest.raises(ConfigurationError) as caught:
        Router.from_file(write(tmp_path, text))
    error = caught.value
    assert message in error.message
    assert fix in error.hint
    assert type(error) is ConfigurationError
    for secret in ("hunter2", "e2b_1234", "ghp_", "sk-proj", "12345678"):
        assert secret not in str(error)


def test_a_tag_constructs_nothing(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    text = SMALL + f"x: !!python/object/apply:os.mkdir ['{proof}']\n"
    with pytest.raises(ConfigurationError):
        Router.from_file(write(tmp_path, text))
    assert not proof.exists()


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="larger than 256 KiB"):
        Router.from_file(write(tmp_path, "# " + "x" * MAX_BYTES))


def test_a_file_that_is_not_text_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="line 2: this is not UTF-8"):
        Router.from_file(write(tmp_path, b"a: b\n\xff\xfe\n"))
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        Router.from_file(tmp_path / "missing.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Router.from_file(tmp_path)


def test_without_the_extra_the_error_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError) as caught:
        Router.from_file(write(tmp_path, SMALL))
    assert 'uv pip install "sandboxio-core[routing]"' in caught.value.hint
    assert Router.from_dict(
        {
            "backends": {"here": {"adapter": "local"}},
            "isolation_classes": {"standard": {"backend": "here"}},
            "default_class": "standard",
        }
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"backends": {1: {}}}, "backends: a key is int, not text"),
        ({"backends": object()}, "backends: a value is of type object"),
        ({"backends": {"a": {"adapter": "local", "api_key": "hunter2"}}}, "backends.a.api_key"),
        ([], "the routing file must be a mapping"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_dict_is_told_the_key(data: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Router.from_dict(data)
    assert message in caught.value.message


def test_a_dict_that_holds_itself_is_refused() -> None:
    data: dict[str, object] = {}
    data["backends"] = data
    with pytest.raises(ConfigurationError, match="nested more than"):
        Router.from_dict(data)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_example_of_the_documentation_loads(path: Path) -> None:
    router = Router.from_file(path)
    assert router.explain().candidates


def test_there_are_examples() -> None:
    assert len(list(EXAMPLES.glob("*.yaml"))) >= 3


def test_every_file_that_the_guide_shows_loads(tmp_path: Path) -> None:
    guide = (EXAMPLES.parents[1] / "how-to" / "routing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert blocks
    for block in blocks:
        assert Router.from_file(write(tmp_path, block)).explain().candidates


# --- options of an adapter ------------------------------------------------------------------------


def with_entry(entry: dict[str, object]) -> Router:
    return Router.from_dict(
        {
            "backends": {"own": entry},
            "isolation_classes": {"standard": {"backend": "own"}},
            "default_class": "standard",
        }
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": 3}, "backends.own: runtime must be text"),
        ({"pull": "sometimes"}, "pull must be 'missing' or 'always' or 'never'"),
        ({"pull_timeout": "long"}, "pull_timeout must be a number"),
        ({"api_key": "os.environ/DOCKER_TOKEN"}, "cannot take api_key from DOCKER_TOKEN"),
        ({"env": "x"}, "unknown key 'env'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_are_checked_against_the_configuration_of_the_adapter(
    options: dict[str, object], message: str
) -> None:
    pytest.importorskip("sandboxio_docker._config", reason="sandboxio-docker is not installed")
    with pytest.raises(ConfigurationError) as caught:
        with_entry({"adapter": "docker", **options})
    assert message in caught.value.message


def test_two_entries_of_one_backend_with_different_options_are_two_backends() -> None:
    pytest.importorskip("sandboxio_docker._config", reason="sandboxio-docker is not installed")
    router = Router.from_dict(
        {
            "backends": {
                "here": {"adapter": "docker", "image": "a"},
                "there": {"adapter": "docker", "image": "b", "host": "tcp://127.0.0.1:1"},
                "same": {"adapter": "docker", "image": "c"},
            },
            "isolation_classes": {"standard": {"backend": "here"}},
            "default_class": "standard",
        }
    )
    here, there, same = (router._lanes.open(name) for name in ("here", "there", "same"))
    assert here is same
    assert here is not there


def test_a_registered_backend_takes_no_options(stage: Callable[..., Any], driver: Any) -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'size': the backend"):
        stage([driver("own")], entries={"own": {"size": 3}})


async def test_an_unset_variable_is_an_auth_error_at_its_turn_and_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sandboxio_e2b._plugin", reason="sandboxio-e2b is not installed")
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    router = Router.from_dict(
        {
            "backends": {
                "cloud": {"adapter": "e2b", "api_key": "os.environ/E2B_API_KEY"},
                "local": {"adapter": "local"},
            },
            "isolation_classes": {"standard": {"backend": "cloud", "isolation": "container"}},
            "default_class": "standard",
        }
    )
    assert "E2B_API_KEY" in router.explain().candidates[0].reason
    with pytest.raises(AuthError, match="E2B_API_KEY"):
        await router.create()


async def test_a_template_given_twice_is_refused(stage: Callable[..., Any], driver: Any) -> None:
    up = stage([driver("own"), driver("other")], entries={"own": {"image": "a"}})
    with pytest.raises(ConfigurationError, match="template is given twice"):
        await up.router.create(template="b")
    assert up.created == []
    await up.router.create(template="a")
    await up.router.create()
    assert [request.template for request in up["own"].requests] == ["a", "a"]


@pytest.mark.parametrize("wrong", [0, -1, True, "3", float("nan")], ids=str)
def test_a_bound_that_is_no_bound_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="open_for"):
        RouterTuning(open_for=wrong)
