"""Where executors reach the driver."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from paceline.errors import SettingError


def listening(spark: Any, port: int, address: str | None, mask: str | None) -> tuple[str, str | None]:
    """Where the master listens, and what it is reached at: an address that is given, one in the given network, or the driver's own."""
    if address is None and mask is not None:
        address = _in_network(mask)
    if address is None:
        address = spark.conf.get("spark.driver.host", None) or socket.gethostbyname(socket.gethostname())
    try:
        found = {ipaddress.ip_address(entry[4][0]) for entry in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise SettingError(
            f"`{address}` is no address of the driver ({error}): set `spark.driver.host`, `controllerAddress` or `networkMask`"
        ) from None
    if found and all(one.is_loopback for one in found):
        return f"127.0.0.1:{port}", None
    return f"0.0.0.0:{port}", address


def _in_network(mask: str) -> str:
    """The address of this machine in a network such as `10.1.0.0/16`."""
    try:
        network = ipaddress.ip_network(mask, strict=False)
    except ValueError as error:
        raise SettingError(f"expected `networkMask` as `10.1.0.0/16`, found `{mask}`: {error}") from None
    own = _own_addresses()
    for address in own:
        if address in network:
            return str(address)
    listed = ", ".join(map(str, own))
    raise SettingError(f"the driver has no address in `{mask}`: it has {listed}")


def _own_addresses() -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """All addresses of this machine, as its routes tell."""
    found = {ipaddress.ip_address("127.0.0.1")}
    for entry in socket.getaddrinfo(socket.gethostname(), None):
        found.add(ipaddress.ip_address(str(entry[4][0]).split("%")[0]))
    try:
        with open("/proc/net/fib_trie", encoding="ascii") as table:
            previous = ""
            for line in table:
                if "/32 host LOCAL" in line:
                    found.add(ipaddress.ip_address(previous))
                previous = line.strip().removeprefix("|-- ").strip()
    except (OSError, ValueError):
        pass
    return sorted(found, key=lambda address: (address.version, int(address)))
