"""TLS between two programs that know of each other beforehand: one certificate for one offer.

The producer makes it in memory, and the consumer gets it through the queue managers.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from typing import Final

_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The clocks of two machines need not agree, and the certificate ends with its offer."""


def showing_itself() -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a fresh certificate, which the callers were told beforehand.

    Its key is in memory only. Gives also the certificate, as the callers are to be told of it.
    """
    # Costs a fifth of a second to load, which only those pay who need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "one file transfer")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_LONG_AGO)
        .not_valid_after(_NEVER)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with os.fdopen(os.memfd_create("certificate"), "wb", buffering=0) as file:
        file.write(private + certificate.public_bytes(pem))
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, certificate.public_bytes(serialization.Encoding.DER)


def trusting_only(certificate: bytes) -> ssl.SSLContext:
    """A TLS context that trusts only one certificate (DER), which the caller was told beforehand.

    Raises `ssl.SSLError` if it is none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # It names nobody: that it is this one is all there is to know.
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
