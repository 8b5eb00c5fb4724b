"""Key pairs of a cluster, the keys that have been let in, and the join tokens that are good: the only module that
touches those files.

    <state>/cellmesh/clusters/<cluster>/cluster.json    its name, the head's address, the head's public key
                                        node.key        key pair of this user's nodes and commands on this machine
                                        head.key        key pair of the head, on its machine alone
                                        members/        one file for each public key that has been let in, head only
                                        tokens/         one for each token, head only
                                        head.json       where the head keeps its control store
                                        head.lock       held while the head runs, head only
                                        control.db      the head's control store, unless it lies elsewhere
                                        head.log

<state> is $XDG_STATE_HOME, or ~/.local/state: a head that is started again after its machine was must find its keys,
which the folder of sessions (XDG_RUNTIME_DIR) does not outlive. Folders are of mode 0700, files of mode 0600, and what
is not, or is not ours, is not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import struct
import time
from collections.abc import Callable, Generator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ...ipc.transport import UNREADABLE
from ...node import private_dir
from ...system.user_state import state_folder
from .tokens import SECRET_BYTES, Token, TokenError

TOKEN_LIFE_S = 600.0
MAX_TOKENS = 256  # used and expired ones are remembered, so that an error can say so
MAX_FILE_BYTES = 64 << 10
MAX_LOG_BYTES = 1 << 20
TOKEN_VARIABLE = "CELLMESH_TOKEN_FILE"
_FLOCK = "hhqqi"  # struct flock: the kernel says who holds a lock, so no file does

Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
ClusterName = Annotated[str, Meta(pattern="^[0-9a-z-]{1,64}$")]


class KeyFileError(PermissionError):
    """A file or folder of keys is not as it must be, so nothing in it is believed."""


class KeyPair:
    """A CURVE key pair. The secret half never shows in a repr, a log or a traceback."""

    __slots__ = ("public", "secret")

    public: bytes
    secret: bytes

    def __init__(self, public: bytes, secret: bytes) -> None:
        self.public, self.secret = public, secret

    def __repr__(self) -> str:
        return f"<KeyPair {self.public.hex()[:12]}..., secret redacted>"


def pair_of(token: Token, public_of: Callable[[bytes], bytes]) -> KeyPair:
    """The key pair by which a newcomer proves that it has a token; `public_of`: from a secret key to its public one."""
    return KeyPair(public_of(token.secret_key), token.secret_key)


def read_token_file(path: str) -> str:
    """The text of a token that lies in a file, which must be private.

    Raises
    ------
    TokenError
        There is none to be read, or others could read it.
    """
    try:
        return _read(path).decode("ascii", errors="replace")
    except (OSError, KeyFileError) as error:
        raise TokenError(f"{TOKEN_VARIABLE}: {error}") from None


# ---------------------------------------------------------------- files
class _Cluster(Struct, frozen=True):
    cluster: ClusterName
    address: Annotated[str, Meta(max_length=256)]
    head_key: Hex


class _Pair(Struct, frozen=True):
    public: Hex
    secret: Hex


class _Head(Struct, frozen=True):
    control_store: Annotated[str, Meta(max_length=4096)]  # may hold a password
    node_timeout_s: float | None = None
    head_timeout_s: float | None = None
    sessions: Annotated[str, Meta(max_length=4096)] = ""  # the folder of those who have started it


class _MemberFile(Struct, frozen=True):
    hostname: Annotated[str, Meta(max_length=256)]
    since: str


class _TokenFile(Struct, frozen=True):
    boot: str  # of the machine: the clock below begins with it
    expires: float
    state: Literal["new", "used"] = "new"


def _root() -> str:
    """The folder of this user's clusters, which need not be there."""
    return state_folder("clusters")


def _make_root() -> str:
    """Make it, private, unless it is there; raises UnsafeDirectory if that is not ours alone."""
    root = _root()
    parent = os.path.dirname(root)
    private_dir.make_with_parents(os.path.dirname(parent))
    private_dir.make(parent)
    private_dir.make(root)
    return root


def _read(path: str) -> bytes:
    """The content of a private file, looked at through one descriptor, so that it cannot be exchanged in between."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise KeyFileError(
                f"{path} must be a file of yours with mode 0600, which it is not; others may know what "
                f"is in it. If you know they do not: chmod 600 {path}"
            )
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise KeyFileError(f"{path} is larger than any file of keys")
    return data


def _load(path: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(_read(path), type=kind)
    except UNREADABLE as error:
        raise KeyFileError(f"{path} is damaged: {error}; remove it") from None


def _save(path: str, record: Any) -> None:
    """Write a private file as a whole: readers see the old one or the new one, and so does who comes after a crash."""
    new = f"{path}.{os.urandom(4).hex()}~"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(fd)
        os.rename(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise
    _sync(os.path.dirname(path))


def _sync(folder: str) -> None:
    """What has been made and renamed there stays, whatever comes."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _save_pair(path: str, pair: KeyPair) -> None:
    _save(path, _Pair(pair.public.hex(), pair.secret.hex()))


def _let_in(folder: str, key: bytes, hostname: str) -> None:
    path = os.path.join(folder, "members", f"{key.hex()}.json")
    _save(path, _MemberFile(hostname[:256], time.strftime("%Y-%m-%dT%H:%M:%S%z")))


class Cluster:
    """What this user knows of a cluster on this machine.

    Attributes
    ----------
    path : str
        The folder.
    name : str
        The cluster's; random, so that another one at the same address is another one.
    address : str
        Its head's, "HOST:PORT".
    head_key : bytes
        The head's public key.
    """

    def __init__(self, path: str) -> None:
        record: _Cluster = _load(os.path.join(path, "cluster.json"), _Cluster)
        self.path: str = path
        self.name: str = record.cluster
        self.address: str = record.address
        self.head_key: bytes = bytes.fromhex(record.head_key)

    # ---- beginning and end
    @classmethod
    def begin(cls, address: str, new_pair: Callable[[], KeyPair], control_store: str = "") -> Cluster:
        """A new cluster whose head is to be at `address`, with keys of its own."""
        head, own = new_pair(), new_pair()

        def make_head(path: str) -> None:
            for folder in ("members", "tokens"):
                private_dir.make(os.path.join(path, folder))
            _let_in(path, own.public, "the head's machine")
            _save(os.path.join(path, "head.json"), _Head(control_store))
            _save_pair(os.path.join(path, "head.key"), head)

        return cls._make(f"c-{os.urandom(5).hex()}", address, head.public, own, make_head)

    @classmethod
    def joined(cls, name: str, address: str, head_key: bytes, own: KeyPair) -> Cluster:
        """Remember a cluster that has let this machine in."""
        for other in known():
            if other.address == address and not other.has_head:
                other.forget()  # it has had that address before
        return cls._make(name, address, head_key, own)

    @classmethod
    def _make(
        cls,
        name: str,
        address: str,
        head_key: bytes,
        own: KeyPair,
        make_more: Callable[[str], None] = lambda path: None,
    ) -> Cluster:
        root = _make_root()
        path = os.path.join(root, msgspec.convert(name, ClusterName))
        private_dir.make(path)
        _sync(root)
        make_more(path)
        _save_pair(os.path.join(path, "node.key"), own)
        # Last: with it there is a cluster.
        _save(os.path.join(path, "cluster.json"), _Cluster(name, address, head_key.hex()))
        return cls(path)

    def forget(self) -> None:
        """The cluster has ended, or has sent this machine away: remove all of it."""
        shutil.rmtree(self.path, ignore_errors=True)

    # ---- pairs
    @property
    def has_head(self) -> bool:
        """Whether its head belongs on this machine."""
        return os.path.exists(os.path.join(self.path, "head.key"))

    def own_pair(self) -> KeyPair:
        """The pair of this user's nodes and commands on this machine."""
        return self._load_pair("node.key")

    def head_pair(self) -> KeyPair:
        """The head's."""
        return self._load_pair("head.key")

    def _load_pair(self, name: str) -> KeyPair:
        record: _Pair = _load(os.path.join(self.path, name), _Pair)
        return KeyPair(bytes.fromhex(record.public), bytes.fromhex(record.secret))

    @property
    def control_store(self) -> str:
        """Where the head keeps its control store; "": in the folder."""
        return self._head().control_store

    @property
    def timeouts_s(self) -> tuple[float | None, float | None]:
        """After how long a silence a node is dead, and a head gone for good; None: as usual."""
        record = self._head()
        return record.node_timeout_s, record.head_timeout_s

    @property
    def started_from(self) -> str:
        """The folder of sessions from which its head was started last; "": that was not noted."""
        return self._head().sessions

    def set_timeouts(self, node_s: float | None, head_s: float | None, sessions: str = "") -> None:
        """Have the head's next life use these; None: as it is. `sessions`: see `started_from`."""
        old = self._head()
        new = _Head(
            old.control_store, node_s or old.node_timeout_s, head_s or old.head_timeout_s, sessions or old.sessions
        )
        if new != old:
            _save(os.path.join(self.path, "head.json"), new)

    def _head(self) -> _Head:
        record: _Head = _load(os.path.join(self.path, "head.json"), _Head)
        return record

    # ---- nodes
    def note_end(self, session: str, reason: str) -> None:
        """Write down why a node of this machine has left, for people: its own log goes with its session."""
        path = os.path.join(self.path, "nodes.log")
        try:
            if os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES:
                os.replace(path, f"{path}.old")
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return  # the cluster has ended, and this machine has forgotten it
        with os.fdopen(fd, "w") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} session {session} has left: {reason}\n")

    # ---- members
    def let_in(self, key: bytes, hostname: str) -> None:
        """Note that this public key may connect from now on."""
        _let_in(self.path, key, hostname)

    def members(self) -> set[bytes]:
        """The keys that may connect."""
        return {
            bytes.fromhex(name.removesuffix(".json"))
            for name in os.listdir(os.path.join(self.path, "members"))
            if name.endswith(".json")
        }

    # ---- tokens
    def new_token(self, public_of: Callable[[bytes], bytes], life_s: float = TOKEN_LIFE_S) -> Token:
        """Make a token; only on the head's machine."""
        token = Token(self.head_key, os.urandom(SECRET_BYTES))
        self._sweep_tokens()
        _save(self._token(pair_of(token, public_of).public), _TokenFile(_boot(), _now() + life_s))
        return token

    def knows_token(self, public: bytes) -> bool:
        """Whether a token with that public half has been made, lately, whatever has become of it."""
        return os.path.exists(self._token(public))

    def use_token(self, public: bytes) -> None:
        """Take the token, which is worth nothing from then on.

        Raises
        ------
        TokenError
            It is not to be had.
        """
        with self._token_lock():
            try:
                found: _TokenFile = _load(self._token(public), _TokenFile)
            except FileNotFoundError:
                raise TokenError(
                    "this head has not made that join token; `cellmesh token` on its machine makes one"
                ) from None
            if found.state == "used":
                raise TokenError(
                    "that join token has been used, and each is good for one machine; `cellmesh token` "
                    "on the head's machine makes another"
                )
            if found.boot != _boot() or _now() > found.expires:
                raise TokenError("that join token has expired; `cellmesh token` on the head's machine makes another")
            _save(self._token(public), msgspec.structs.replace(found, state="used"))

    def _token(self, public: bytes) -> str:
        return os.path.join(self.path, "tokens", f"{public.hex()}.json")

    @contextlib.contextmanager
    def _token_lock(self) -> Generator[None, None, None]:
        fd = os.open(os.path.join(self.path, "tokens"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _sweep_tokens(self) -> None:
        folder = os.path.join(self.path, "tokens")
        with self._token_lock():
            paths = sorted((os.path.join(folder, name) for name in os.listdir(folder)), key=os.path.getmtime)
            for path in paths[: max(0, len(paths) - MAX_TOKENS + 1)]:
                os.unlink(path)

    # ---- the head's process
    def hold_head(self) -> int | None:
        """Be the head: a descriptor to keep open as long as this process is, and no second one; None: another process
        is."""
        fd = os.open(self._lock(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(fd)
            return None
        return fd

    def head_pid(self) -> int | None:
        """The process of the head that runs on this machine; None: none does."""
        try:
            fd = os.open(self._lock(), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        finally:
            os.close(fd)
        return pid if kind != fcntl.F_UNLCK else None

    def _lock(self) -> str:
        return os.path.join(self.path, "head.lock")


def known() -> list[Cluster]:
    """The clusters that this user knows on this machine, the youngest first. Raises UnsafeDirectory, KeyFileError."""
    if not os.path.exists(_root()):
        return []
    root = _make_root()  # looks whether it is private
    found: list[tuple[float, str]] = []
    for name in os.listdir(root):
        path = os.path.join(root, name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # being made, or removed
            found.append((os.stat(os.path.join(path, "cluster.json")).st_mtime, path))
    return [Cluster(path) for _, path in sorted(found, reverse=True)]


def _now() -> float:
    # Wall clocks are set; this one runs on through a suspended night, and every process of the machine reads the same.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
