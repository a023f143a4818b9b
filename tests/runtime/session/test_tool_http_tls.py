"""Tools behind HTTPS: nothing was sent before both sides agreed on TLS."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.dying import Dying, answering, dying
from tests.support.tooling import request, spec

from perdure.runtime.session.ports import Completed, NotSent
from perdure.runtime.session.tool_http import HttpTool

pytestmark = pytest.mark.sessions

OK = answering("200 OK", b'{"moved":true}')
DONE = Completed({"moved": True})
DEATHS = ("closes", "resets")


async def called(url, *, timeout_ms=60_000, **more):
    return await HttpTool(spec(timeout_ms=timeout_ms), url, **more).call(request(to="north"))


def certificate(folder):
    """Return contexts of a server and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=36_500))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=path)


async def test_who_cannot_be_trusted_was_sent_nothing_and_who_can_be_answers(tmp_path):
    context, trusting = certificate(tmp_path)
    seen = []

    async def serve(reader, writer):
        seen.append(await reader.read(65_536))
        writer.write(OK)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        distrusted = await called(url)
        trusted = await called(url, ssl_context=trusting)

    assert isinstance(distrusted, NotSent)
    assert trusted == DONE
    assert len([each for each in seen if each]) == 1


@pytest.mark.parametrize("death", DEATHS)
async def test_a_server_that_dies_before_tls_is_agreed_was_sent_nothing(death):
    for count in (0, 1, 100):
        async with dying(Dying(b"", reads=count, death=death)) as server:
            outcome = await called(server.url.replace("http:", "https:"))
        assert isinstance(outcome, NotSent), outcome


async def test_a_server_that_speaks_no_tls_was_sent_nothing():
    async with dying(Dying(answering("400 Bad Request"), reads=50, answers_early=True)) as server:
        outcome = await called(server.url.replace("http:", "https:"), timeout_ms=300)

    assert isinstance(outcome, NotSent)
