"""Certificates for mutual TLS: an authority of one's own, and what it signs for each name.

    ca.pem      the certificate of the authority: every machine gets it
    ca.key      its private key: it stays where certificates are made
    NAME.pem    the private key and the certificate of NAME, for its machine alone

The first name of a certificate (subjectAltName) is NAME, by which its holder is known as a caller.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from dray.errors import InvalidArgument, InvalidConfiguration
from dray.model.names import is_host
from dray.own_files import FILE_MODE

AUTHORITY_FILE, AUTHORITY_KEY_FILE = "ca.pem", "ca.key"
AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 825
"""The longest that common TLS clients accept of a private authority."""
_IPV6: Final = 6
_EARLIER: Final = timedelta(hours=1)
"""The clocks of two machines need not agree."""


class Ending(NamedTuple):
    """A certificate of a file, by its subject, and when it ends."""

    name: str
    ends: datetime


def make_authority(folder: Path, *, now: float, days: int = AUTHORITY_DAYS) -> list[Path]:
    """Make an authority's certificate and key in a folder; give both files.

    Raises `InvalidConfiguration` if one of them is there, and OSError.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("our queue managers")
    certificate = (
        _builder(name, name, key.public_key(), now=now, days=days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = [folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE]
    _write_new({files[0]: _pem(certificate), files[1]: _private_pem(key)})
    return files


def issue(
    folder: Path, name: str, hosts: Sequence[str], *, now: float, days: int = CERTIFICATE_DAYS
) -> Path:
    """Make a key and a certificate of `name` by the authority of a folder; give their file.

    `hosts` are the names and addresses at which others connect to its holder. Raises
    `InvalidArgument`, `InvalidConfiguration` if the file is there or no authority is, and OSError.
    """
    for each in (name, *hosts):
        if not is_host(each) or not each.isascii():
            raise InvalidArgument(
                f"{each!r} cannot be a name in a certificate; write letters, digits, '-' and '.',"
                " or the address of a host"
            )
    authority, authority_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    issuer_key = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    known = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [_general_name(each) for each in dict.fromkeys((name, *hosts))]
    certificate = (
        _builder(subject, authority.subject, key.public_key(), now=now, days=days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(known, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    _write_new({file: _private_pem(key) + _pem(certificate)})
    return file


def endings(file: str | Path) -> list[Ending]:
    """When the certificates of a file end; raises `InvalidConfiguration`."""
    try:
        found = x509.load_pem_x509_certificates(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(f"{file} holds no certificates: {error}") from error
    return [Ending(_subject(each), each.not_valid_after_utc) for each in found]


def names_of(file: str | Path) -> list[str]:
    """The hosts that the first certificate of a file names, as a URL has them.

    Raises `InvalidConfiguration`.
    """
    try:
        found = x509.load_pem_x509_certificates(Path(file).read_bytes())[0]
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(f"{file} holds no certificates: {error}") from error
    except x509.ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    shown = [f"[{each}]" if each.version == _IPV6 else str(each) for each in addresses]
    return [*map(str.lower, names.get_values_for_type(x509.DNSName)), *shown]


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    files = [folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE]
    try:
        certificate = x509.load_pem_x509_certificate(files[0].read_bytes())
        key = serialization.load_pem_private_key(files[1].read_bytes(), password=None)
    except FileNotFoundError as error:
        raise InvalidConfiguration(
            f"there is no authority in {folder}: {error.filename} is missing; make one with"
            " `dray cert init`, or name its folder with --dir"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidConfiguration(
            f"{files[0]} and {files[1]} are no authority of `dray cert init`: {error}"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != (
        certificate.public_key()
    ):
        raise InvalidConfiguration(
            f"{files[1]} is not the key of {files[0]}; take both from one `dray cert init`"
        )
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    now: float,
    days: int,
) -> x509.CertificateBuilder:

    begins = datetime.fromtimestamp(int(now), UTC) - _EARLIER
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(text: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    return x509.DNSName(text)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_new(contents: dict[Path, bytes]) -> None:
    """Write files that only their owner can read; replace none."""
    for path in contents:
        if path.exists() or path.is_symlink():
            raise InvalidConfiguration(
                f"{path} is there already; move it away, or choose another folder with --dir"
            )
    for path, content in contents.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, FILE_MODE), "wb") as file:
            file.write(content)
