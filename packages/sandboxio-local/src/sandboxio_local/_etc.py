"""What a sandbox sees of ``/etc``: what programs need to run, and nothing that names this host."""

from __future__ import annotations

from typing import Final

__all__ = ["HOST_ENTRIES", "HOST_NAME", "RESOLV_CONF", "SYNTHETIC"]

HOST_NAME: Final = "sandbox"

HOST_ENTRIES: Final = (
    # the loader, and which of several programs a name means
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    # certificates; never their private keys, which are next to them
    "ca-certificates",
    "ca-certificates.conf",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "crypto-policies",
    # tables
    "debian_version",
    "os-release",
    "redhat-release",
    "alpine-release",
    "localtime",
    "timezone",
    "locale.alias",
    "mime.types",
    "magic",
    "protocols",
    "services",
    "terminfo",
    "inputrc",
    "fonts",
    # languages
    "python3",
    "perl",
)
"""Paths below ``/etc`` that are taken from the host, read-only, where it has them."""

SYNTHETIC: Final = {
    "passwd": (
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        "sandbox:x:1000:1000:sandbox:/work:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost ip6-localhost\n",
    "hostname": f"{HOST_NAME}\n",
}
"""Files below ``/etc`` that are the same in every sandbox."""

RESOLV_CONF: Final = "nameserver {address}\noptions edns0\n"
