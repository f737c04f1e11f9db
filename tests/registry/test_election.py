"""Which registry writes: the choice, its JSON, and the lease of the one that is chosen."""

import asyncio

import msgspec
import pytest

from ottla.registry import decisions
from ottla.registry.election import DUPLICATE_URLS, Assignment, Identity, choose
from ottla.registry.errors import RegistryError
from ottla.registry.languages.checker import Checker
from ottla.registry.model import Mode
from ottla.registry.service import Service

A, B, C = (Identity(host, 8081) for host in ("a", "b", "c"))


def test_the_first_by_address_is_chosen() -> None:
    assert choose([("1", C), ("2", A), ("3", B)]) == Assignment(master="2", master_identity=A)


def test_who_writes_already_continues() -> None:
    writing = msgspec.structs.replace(C, leader=True)
    assert choose([("1", A), ("2", writing)]).master == "2"


def test_who_may_not_write_is_not_chosen() -> None:
    reader = msgspec.structs.replace(A, master_eligibility=False)
    assert choose([("1", reader), ("2", B)]).master == "2"
    assert choose([("1", reader)]).master is None
    assert choose([]).master is None


def test_two_with_one_address_are_an_error() -> None:
    assert choose([("1", A), ("2", A)]) == Assignment(error=DUPLICATE_URLS)


def test_members_are_read_as_confluents_registries_write_them() -> None:
    sent = b'{"version":1,"host":"a","port":8081,"master_eligibility":true,"scheme":"http"}'
    assert msgspec.json.decode(sent, type=Identity) == A
    chosen = b'{"version":1,"error":0,"master":"m","master_identity":' + sent + b"}"
    assert msgspec.json.decode(chosen, type=Assignment) == Assignment(master="m", master_identity=A)


def test_a_writer_whose_lease_ran_out_writes_nothing() -> None:
    async def go() -> None:
        service = Service(Checker())
        service.write_alone()
        service.holds_lease = lambda: False
        with pytest.raises(RegistryError) as caught:
            await service.change(
                lambda: decisions.set_mode(service.state, "", Mode.READONLY, force=False)
            )
        assert caught.value.code == 50004
        assert service.state.mode("") is None

    asyncio.run(go())
