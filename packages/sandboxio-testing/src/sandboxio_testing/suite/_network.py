"""The network policy: what is denied cannot be reached, and what the policy says is true.

Each denial has a positive control: the same probe, run outside, reaches what it must not reach
from inside, and the service that it is aimed at writes down who came.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sandboxio.errors import CapabilityNotSupported, ConfigurationError
from sandboxio.models import Capability, NetworkPolicy
from sandboxio.protocols import AsyncSandbox, Backend

from ._base import ContractBase, Maker, Names
from ._clause_mark import clause, needs
from ._listeners import (
    Listener,
    from_outside,
    host_addresses,
    listening,
    token,
)
from ._oracle import Oracle, known
from ._refusals import refused

__all__ = ["NetworkContract"]

NOBODY = "192.0.2.7"
"""An address that is set aside for documentation: nobody has it."""

METADATA = "169.254.169.254"
"""The address at which clouds answer questions about a machine, credentials included."""


class NetworkContract(ContractBase):
    """`NetworkPolicy`."""

    async def reaches(self, sandbox: AsyncSandbox, target: Listener) -> bool:
        """Return whether the sandbox reaches a service, by either side's word."""
        mine = token()
        command = self.probes.reach(target.kind, target.host, target.port, mine)
        result = await sandbox.run(command)
        assert result.exit_code in (0, 9), f"the probe reach() does not work inside: {result}"
        return result.stdout == "reached\n" or mine in target.heard

    async def control(self, target: Listener) -> None:
        """Fail unless the same probe reaches the service from outside."""
        mine = token()
        command = self.probes.reach(target.kind, target.host, target.port, mine)
        code, output = await to_thread.run_sync(from_outside, command)
        assert (code, output) == (0, "reached\n"), f"the probe reach() does not work: {output}"
        assert mine in target.heard

    async def is_denied(self, sandbox: AsyncSandbox, kind: str, hosts: list[str]) -> None:
        """Fail if the sandbox reaches a service of this host that this host reaches."""
        tried = 0
        for host in hosts:
            with ExitStack() as stack:
                try:
                    target = stack.enter_context(listening(kind, host))
                except OSError:
                    continue
                await self.control(target)
                assert not await self.reaches(sandbox, target), f"{kind} {host} was reached"
                tried += 1
        if not tried:
            pytest.skip(f"this host has no address to listen at for {kind}: {hosts}")

    # ----- the policy

    @clause("network.default")
    async def test_everything_is_denied_by_default(self, make: Maker) -> None:
        """If this fails, the default of the backend is not that of sandboxio."""
        sandbox = await make()
        assert sandbox.policy.network == NetworkPolicy(egress="deny")
        await self.is_denied(sandbox, "tcp", [*host_addresses(), "127.0.0.1"])

    @clause("network.reported")
    async def test_policy_tells_the_network(self, make: Maker) -> None:
        """If this fails, `AppliedPolicy.network` is not what was asked for."""
        sandbox = await make(network=NetworkPolicy(egress="deny"))
        assert sandbox.policy.network == NetworkPolicy(egress="deny")
        assert sandbox.policy.network_mechanism

    @clause("network.verified")
    async def test_network_was_verified(self, sandbox: AsyncSandbox) -> None:
        """If this fails, the adapter trusts that what it asked for was done."""
        assert sandbox.policy.network_verified is True

    # ----- denied

    @clause("network.deny-loopback")
    async def test_loopback_of_the_host_is_denied(self, sandbox: AsyncSandbox) -> None:
        """If this fails, the sandbox shares the host's network."""
        await self.is_denied(sandbox, "tcp", ["127.0.0.1"])

    @clause("network.deny-host")
    async def test_address_of_the_host_is_denied(self, sandbox: AsyncSandbox) -> None:
        """If this fails, egress is filtered by name or proxy only, or not at all."""
        await self.is_denied(sandbox, "tcp", host_addresses())

    @clause("network.deny-ipv6")
    @pytest.mark.parametrize("where", ["loopback", "address"])
    async def test_ipv6_is_denied(self, sandbox: AsyncSandbox, where: str) -> None:
        """If this fails, only IPv4 is filtered."""
        hosts = ["::1"] if where == "loopback" else host_addresses(socket.AF_INET6)
        await self.is_denied(sandbox, "tcp", hosts)

    @clause("network.deny-udp")
    @pytest.mark.parametrize("where", ["loopback", "address"])
    async def test_udp_is_denied(self, sandbox: AsyncSandbox, where: str) -> None:
        """If this fails, only TCP is filtered, and names carry data out."""
        hosts = ["127.0.0.1"] if where == "loopback" else host_addresses()
        await self.is_denied(sandbox, "udp", hosts)

    @clause("network.deny-names")
    async def test_names_are_not_resolved(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a resolver answers inside; questions to it carry data out."""
        command = self.probes.reach("name", self.public_name, 0, token())
        code, output = await to_thread.run_sync(from_outside, command)
        if code != 0:
            pytest.skip(f"this host cannot resolve {self.public_name} itself: {output.strip()}")
        assert (await sandbox.run(command)).exit_code == 9

    @clause("network.deny-metadata")
    async def test_metadata_address_is_denied(self, sandbox: AsyncSandbox) -> None:
        """If this fails, code inside can ask the cloud for this machine's credentials."""
        command = self.probes.reach("connect", METADATA, 80, token())
        assert (await sandbox.run(command)).exit_code == 9
        code, output = await to_thread.run_sync(from_outside, command)
        if code != 0:
            pytest.skip(f"there is no such service here to be denied: {output.strip()}")

    @clause("network.deny-abstract")
    async def test_abstract_sockets_are_denied(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, the sandbox shares the host's network namespace."""
        if not hasattr(socket, "AF_UNIX"):
            pytest.skip("this host has no Unix sockets")
        await self.is_denied(sandbox, "abstract", [name("sandboxio")])

    @clause("network.own-loopback")
    async def test_own_loopback_works(self, make: Maker, oracle: Oracle, name: Names) -> None:
        """If this fails, the loopback of the sandbox is down, and no local server can be tested."""
        sandbox = await make()
        port = await self._serve(sandbox, oracle, name("port"))
        command = self.probes.reach("tcp", "127.0.0.1", port, name("token"))
        assert (await sandbox.run(command)).stdout == "reached\n"

    @clause("network.apart")
    async def test_other_sandbox_is_not_reached(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, sandboxes share a network with each other."""
        one, other = await make(), await make()
        port = await self._serve(one, oracle, name("port"))
        command = self.probes.reach("tcp", "127.0.0.1", port, name("token"))
        assert (await one.run(command)).stdout == "reached\n"
        assert (await other.run(command)).exit_code == 9

    async def _serve(self, sandbox: AsyncSandbox, oracle: Oracle, path: str) -> int:
        server = shlex.join(self.probes.serve(path))
        await sandbox.run(f"{server} < /dev/null > /dev/null 2>&1 &")
        await self.pulse_of(sandbox, oracle).begun(path)
        return int((await sandbox.run(self.probes.show_file(path))).stdout)

    @clause("network.provider")
    async def test_provider_says_that_there_is_no_network(
        self, sandbox: AsyncSandbox, oracle: Oracle
    ) -> None:
        """If this fails, the denial is a rule inside of a network, and a rule can be missed."""
        facts = await oracle.facts(sandbox.id)
        assert known(facts.network, "the network") != "host"

    @clause("network.allow")
    async def test_allow_reaches_the_outside_or_is_refused(
        self, subject: Backend, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, `egress="allow"` is accepted and ignored, or shares the host's loopback."""
        before = await oracle.sandboxes()
        try:
            sandbox = await make(network=NetworkPolicy(egress="allow"))
        except (CapabilityNotSupported, ConfigurationError) as refusal:
            assert refusal.hint
            assert await oracle.sandboxes() <= before
            pytest.skip(f"it is refused, and nothing was created: {refusal.message}")
        assert sandbox.policy.network == NetworkPolicy(egress="allow")
        await self.is_denied(sandbox, "tcp", ["127.0.0.1"])
        await self._reaches_the_outside(sandbox)

    async def _reaches_the_outside(self, sandbox: AsyncSandbox) -> None:
        if self.outside is not None:
            command = self.probes.reach("connect", *self.outside, token())
            assert (await sandbox.run(command)).stdout == "reached\n"
            return
        for host in host_addresses():
            with listening("tcp", host) as target:
                await self.control(target)
                if await self.reaches(sandbox, target):
                    return
        # A sandbox may have been given this host's only address, and then meets itself there.
        pytest.skip("it reaches no address of this host, which proves nothing; set `outside`")

    @needs(Capability.NETWORK_ALLOWLIST)
    @clause("network.allowlist")
    async def test_listed_hosts_are_reached_and_no_others(self, make: Maker) -> None:
        """If this fails, the list is taken for "allow all", or for "deny all"."""
        other = await make(network=NetworkPolicy(egress="deny", allow=(NOBODY,)))
        assert other.policy.network == NetworkPolicy(egress="deny", allow=(NOBODY,))
        await self.is_denied(other, "tcp", [*host_addresses(), "127.0.0.1"])
        if self.outside is not None:
            command = self.probes.reach("connect", *self.outside, token())
            assert (await other.run(command)).exit_code == 9
        for host in [self.outside[0]] if self.outside is not None else host_addresses():
            listed = await make(network=NetworkPolicy(egress="deny", allow=(host,)))
            if self.outside is not None:
                command = self.probes.reach("connect", *self.outside, token())
                assert (await listed.run(command)).stdout == "reached\n"
                return
            with listening("tcp", host) as target:
                await self.control(target)
                if await self.reaches(listed, target):
                    return
        pytest.skip("it reaches no address of this host, which proves nothing; set `outside`")

    # ----- refusals

    def with_policy(self, subject: Backend, network: NetworkPolicy) -> Awaitable[object]:
        """Return a create that asks for a policy."""
        return subject.create(template=self.template, network=network, timeout=30)

    @clause("network.unknown-refused")
    @pytest.mark.parametrize("egress", ["learn", "permit", "", None, True])
    async def test_unknown_egress_is_refused(
        self, subject: Backend, oracle: Oracle, egress: Any
    ) -> None:
        """If this fails, what is not understood is taken for "allow" or for "deny"."""
        policy = NetworkPolicy(egress=egress)
        await refused(oracle, self.with_policy(subject, policy))

    @clause("network.allowlist-refused")
    @pytest.mark.parametrize("allow", [("example.com",), ("10.0.0.0/8",), "example.com"])
    async def test_allowlist_is_refused(self, subject: Backend, oracle: Oracle, allow: Any) -> None:
        """If this fails, a list is accepted by a backend that enforces none."""
        is_list = isinstance(allow, tuple)
        if Capability.NETWORK_ALLOWLIST in subject.capabilities and is_list:
            pytest.skip("the backend declares Capability.NETWORK_ALLOWLIST")
        policy = NetworkPolicy(allow=allow)
        await refused(oracle, self.with_policy(subject, policy))

    @clause("network.ingress-refused")
    async def test_ingress_is_refused(self, subject: Backend, oracle: Oracle) -> None:
        """If this fails, ports are accepted by a backend that opens none."""
        if Capability.TUNNELS in subject.capabilities:
            pytest.skip("the backend declares Capability.TUNNELS")
        policy = NetworkPolicy(ingress_ports=(8080,))
        await refused(oracle, self.with_policy(subject, policy))

    # ----- threads belong to no area of their own: this one has what they need

    @clause("concurrency.threads")
    async def test_backend_serves_several_threads(
        self, subject: Backend, anyio_backend: str
    ) -> None:
        """If this fails, a client, a lock or an event loop is shared by what must not share it."""
        results: list[int] = []

        async def work(number: int) -> None:
            async with await subject.create(template=self.template, timeout=60) as sandbox:
                result = await sandbox.run(self.probes.exit(number))
                results.append(result.exit_code)

        def in_a_loop(number: int) -> None:
            anyio.run(work, number, backend=anyio_backend)

        async def in_a_thread(number: int) -> None:
            await to_thread.run_sync(in_a_loop, number)

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(in_a_thread, number)
        assert sorted(results) == [0, 1, 2, 3]
