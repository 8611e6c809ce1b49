"""The policy of a routing file: defaults, and ceilings that refuse."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxio.errors import ConfigurationError
from sandboxio.models import NetworkPolicy, Resources
from sandboxio.routing import CreateArguments
from sandboxio.routing._ceilings import governed
from sandboxio.routing._file import Limits, Policy

POLICY = Policy(
    network=NetworkPolicy(allow=("a.example", "10.0.0.0/8"), ingress_ports=(80,)),
    limits=Limits(timeout_s=60, cpu=1, memory_mb=512, disk_mb=100, processes=32),
)


def test_what_the_caller_does_not_say_is_the_files() -> None:
    filled = governed(POLICY, CreateArguments())
    assert filled.network == POLICY.network
    assert filled.timeout == 60
    assert filled.resources == Resources(cpu=1, memory_mb=512, disk_mb=100, processes=32)
    assert governed(Policy(), CreateArguments()) == CreateArguments()
    assert CreateArguments().egress == NetworkPolicy(egress="deny")


def test_less_is_granted_as_it_was_asked_for() -> None:
    asked = CreateArguments(
        network=NetworkPolicy(allow=("A.example", "10.2.0.0/16")),
        timeout=10,
        resources=Resources(cpu=0.5, memory_mb=64, disk_mb=100, processes=1),
    )
    assert governed(POLICY, asked) == asked


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (CreateArguments(timeout=61), "limits.timeout_s"),
        (CreateArguments(resources=Resources(cpu=1.5)), "limits.cpu"),
        (CreateArguments(resources=Resources(memory_mb=513)), "limits.memory_mb"),
        (CreateArguments(resources=Resources(disk_mb=101)), "limits.disk_mb"),
        (CreateArguments(resources=Resources(processes=33)), "limits.processes"),
        (CreateArguments(resources=Resources(cpu=float("nan"))), "limits.cpu"),
        (CreateArguments(network=NetworkPolicy(egress="allow")), "network.egress"),
        (CreateArguments(network=NetworkPolicy(egress="learn")), "network.egress"),
        (CreateArguments(network=NetworkPolicy(allow=("b.example",))), "network.allow"),
        (CreateArguments(network=NetworkPolicy(allow=("0.0.0.0/0",))), "network.allow"),
        (CreateArguments(network=NetworkPolicy(allow=("10.0.0.0/7",))), "network.allow"),
        (CreateArguments(network=NetworkPolicy(allow=("::/0",))), "network.allow"),
        (CreateArguments(network=NetworkPolicy(ingress_ports=(443,))), "network.ingress_ports"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_more_is_refused_and_never_cut_down(asked: CreateArguments, what: str) -> None:
    with pytest.raises(
        ConfigurationError, match="policy allows " + what.replace(".", r"\.")
    ) as caught:
        governed(POLICY, asked)
    assert f"policy.{what}" in caught.value.hint


networks = st.builds(
    lambda address, bits: str(ipaddress.ip_network((address, bits), strict=False)),
    st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address),
    st.integers(0, 32),
)
hosts = st.one_of(st.sampled_from(["a.example", "b.example", "*"]), networks)
policies = st.builds(
    NetworkPolicy,
    st.sampled_from(["deny", "allow"]),
    st.lists(hosts, max_size=3).map(tuple),
)


@settings(max_examples=500, deadline=None)
@given(policies, st.none() | policies)
def test_egress_is_never_wider_than_the_file(
    ceiling: NetworkPolicy, asked: NetworkPolicy | None
) -> None:
    try:
        granted = governed(Policy(network=ceiling), CreateArguments(network=asked)).egress
    except ConfigurationError:
        assert asked is not None
        return
    assert granted == (ceiling if asked is None else asked)
    if ceiling.egress == "allow":
        return
    assert granted.egress == "deny"
    for host in granted.allow:
        assert host in ceiling.allow or any(
            ipaddress.ip_network(host).subnet_of(ipaddress.ip_network(outer))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            for outer in ceiling.allow
            if "/" in outer
        )
