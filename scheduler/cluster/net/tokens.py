"""Join tokens, as people copy them. Pure.

A token holds the head's public key and a secret of 128 bits. From the secret a key pair is computed, and the head keeps
its public half only. So an owner of the token can prove that in the handshake, without sending the secret, and any
other newcomer is refused before anything that it sends is looked at. A token is valid once, for some minutes of the
head's machine's life (`keys` remembers it); it is given through a prompt, stdin or a file, never in a command line,
which other users can read.
"""

from __future__ import annotations

import base64
import hashlib

_TOKEN_PREFIX = "cmtoken1"
_KEY_BYTES, SECRET_BYTES, _SUM_BYTES = 32, 16, 5  # 53 bytes, 85 letters


class TokenError(ValueError):
    """A join token that cannot be used; the text says why and what to do."""


class Token:
    """A join token. `str` would show it by accident; `text` is what a person copies."""

    __slots__ = ("head_key", "secret")

    head_key: bytes
    secret: bytes

    def __init__(self, head_key: bytes, secret: bytes) -> None:
        self.head_key, self.secret = head_key, secret

    def __repr__(self) -> str:
        return "<Token redacted>"

    @property
    def text(self) -> str:
        """For a person."""
        body = self.head_key + self.secret
        return _TOKEN_PREFIX + base64.b32encode(body + _sum(body)).decode().rstrip("=").lower()

    @classmethod
    def parse(cls, text: str) -> Token:
        """What `text` gave; spaces and line breaks that copying has brought in do not matter.

        Raises
        ------
        TokenError
            It is none, or not all of one.
        """
        letters = "".join(text.split()).lower()
        if not letters:
            raise TokenError(
                "no join token was given: `cellmesh token` on the head's machine makes one, which `cellmesh start` "
                "asks for, or reads from a pipe or from the file that CELLMESH_TOKEN_FILE names"
            )
        if not letters.startswith(_TOKEN_PREFIX):
            raise TokenError(
                f"that is no join token: one begins with {_TOKEN_PREFIX!r}. `cellmesh token` on the "
                "head's machine makes one"
            )
        letters = letters[len(_TOKEN_PREFIX) :]
        n_letters = -(-(_KEY_BYTES + SECRET_BYTES + _SUM_BYTES) * 8 // 5)
        try:
            data = base64.b32decode(letters.upper() + "=" * (-len(letters) % 8))
        except ValueError:
            data = b""
        body, given = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
        if len(letters) != n_letters or _sum(body) != given:
            if len(letters) == n_letters:
                raise TokenError(
                    "the join token has been mistyped: its length is right, but not every letter. Copy all of it"
                )
            raise TokenError(
                f"the join token is cut off or has letters too many: one has {len(_TOKEN_PREFIX) + n_letters} letters "
                f"and digits, this one {len(_TOKEN_PREFIX) + len(letters)}. Copy all of it"
            )
        return cls(body[:_KEY_BYTES], body[_KEY_BYTES:])

    @property
    def secret_key(self) -> bytes:
        """The secret half of the key pair by which the newcomer proves that it has the token."""
        return hashlib.sha256(b"cellmesh join token" + self.secret).digest()


def _sum(body: bytes) -> bytes:
    return hashlib.sha256(b"cellmesh token" + body).digest()[:_SUM_BYTES]
