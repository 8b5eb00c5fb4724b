"""Key files and join tokens: of which mode, how long they live, and what is said of those that are no good."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.net import keys, sockets
from cellmesh.scheduler.cluster.net.keys import Cluster, KeyFileError, KeyPair, pair_of
from cellmesh.scheduler.cluster.net.tokens import Token, TokenError
from cellmesh.scheduler.node import private_dir


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.begin("127.0.0.1:7421", sockets.new_pair)


def public(token: Token) -> bytes:
    return pair_of(token, sockets.public_of).public


# ---------------------------------------------------------------- files
def test_everything_is_private(cluster: Cluster, state: Path) -> None:
    cluster.new_token(sockets.public_of)
    os.close(cluster.hold_head() or 0)
    everything = [path for path in (state / "cellmesh").rglob("*")] + [state / "cellmesh"]
    assert len(everything) > 8
    for path in everything:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"
    assert not list(state.rglob("*~"))


@pytest.mark.parametrize("name", ["node.key", "head.key", "cluster.json"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_not_believed(cluster: Cluster, name: str, mode: int) -> None:
    path = Path(cluster.path, name)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {path}"):
        Cluster(cluster.path).own_pair()
        cluster.head_pair()


def test_a_link_and_a_pipe_are_not_followed(cluster: Cluster, tmp_path: Path) -> None:
    path = Path(cluster.path, "node.key")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        cluster.own_pair()
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(KeyFileError):
        cluster.own_pair()


def test_a_folder_open_to_others_is_refused(cluster: Cluster, state: Path) -> None:
    (state / "cellmesh" / "clusters").chmod(0o755)
    with pytest.raises(private_dir.UnsafeDirectory):
        keys.known()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"public": "00", "secret": "11"}',
        b"\xff" * 100,
        b"[" * 5000,
        b" " * (1 << 17),
        b'{"public": "\xff"}',
        b'{"\x80": 1}',
    ],
)
def test_a_damaged_file_is_named(cluster: Cluster, content: bytes) -> None:
    path = Path(cluster.path, "node.key")
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=str(path)):
        cluster.own_pair()


def test_a_cluster_is_found_again(cluster: Cluster) -> None:
    (found,) = keys.known()
    assert (found.name, found.address, found.head_key) == (cluster.name, "127.0.0.1:7421", cluster.head_pair().public)
    assert found.own_pair().secret == cluster.own_pair().secret and found.has_head
    assert found.members() == {found.own_pair().public} and found.control_store == ""
    found.let_in(other := sockets.new_pair().public, "h" * 1000)
    assert Cluster(cluster.path).members() == {other, found.own_pair().public}
    cluster.forget()
    assert keys.known() == []


def test_the_next_cluster_at_an_address_takes_the_place_of_the_last(cluster: Cluster) -> None:
    for name in ("c-1", "c-2"):
        Cluster.joined(name, "192.0.2.1:7", sockets.new_pair().public, sockets.new_pair())
    assert sorted(found.name for found in keys.known()) == sorted(["c-2", cluster.name])


@pytest.mark.parametrize("name", ["../c", "", "a/b", "c\0", "x" * 100, "C"])
def test_a_head_does_not_choose_where_files_go(name: str) -> None:
    with pytest.raises(keys.msgspec.ValidationError):
        Cluster.joined(name, "192.0.2.1:7", bytes(32), sockets.new_pair())


def test_there_is_one_head(cluster: Cluster) -> None:
    assert cluster.head_pid() is None
    held = cluster.hold_head()
    assert held is not None
    child = os.fork()
    if child == 0:
        os._exit((0 if cluster.hold_head() is None else 1) | (0 if cluster.head_pid() == os.getppid() else 2))
    assert os.waitpid(child, 0)[1] == 0
    os.close(held)
    assert cluster.head_pid() is None


def test_secrets_do_not_show(cluster: Cluster) -> None:
    pair, token = cluster.own_pair(), cluster.new_token(sockets.public_of)
    assert (
        pair.secret.hex() not in repr(pair)
        and token.secret.hex() not in f"{token!r}{token}"
        and token.text not in f"{token}"
    )
    stored = b"".join(path.read_bytes() for path in Path(cluster.path, "tokens").iterdir())
    names = "".join(os.listdir(Path(cluster.path, "tokens")))
    assert token.secret.hex().encode() not in stored and token.secret.hex() not in names
    assert pair_of(token, sockets.public_of).secret.hex().encode() not in stored


# ---------------------------------------------------------------- tokens
def test_a_token_survives_being_copied(cluster: Cluster) -> None:
    token = cluster.new_token(sockets.public_of)
    for text in (token.text, token.text.upper(), f"  {token.text[:30]}\n  {token.text[30:]}\n"):
        again = Token.parse(text)
        assert (again.head_key, again.secret) == (cluster.head_key, token.secret)
    assert isinstance(pair_of(again, sockets.public_of), KeyPair) and token.text.isalnum()


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda text: " ", "no join token was given"),
        (lambda text: "hello", "no join token"),
        (lambda text: text[1:], "no join token"),
        (lambda text: text[:-1], "cut off"),
        (lambda text: text[:20], "cut off"),
        (lambda text: text + "a", "too many"),
        (lambda text: text[:30] + ("a" if text[30] != "a" else "b") + text[31:], "mistyped: its length is right"),
        (lambda text: text[:-3] + "0!9", "mistyped"),
    ],
)
def test_a_spoilt_token_is_called_what_it_is(cluster: Cluster, spoil: object, words: str) -> None:
    text = cluster.new_token(sockets.public_of).text
    with pytest.raises(TokenError, match=words) as raised:
        Token.parse(spoil(text))
    assert text[8:] not in str(raised.value)


def test_a_token_is_good_once(cluster: Cluster) -> None:
    token = public(cluster.new_token(sockets.public_of))
    assert cluster.knows_token(token)
    cluster.use_token(token)
    with pytest.raises(TokenError, match="has been used"):
        Cluster(cluster.path).use_token(token)
    assert cluster.knows_token(token), "so that it can be told"


def test_a_token_expires_by_a_clock_that_nobody_sets(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    now = keys._now()
    soon, late = (public(cluster.new_token(sockets.public_of, life_s=s)) for s in (60, 600))
    monkeypatch.setattr(keys, "_now", lambda: now + 100)
    with pytest.raises(TokenError, match="has expired"):
        cluster.use_token(soon)
    cluster.use_token(late)
    monkeypatch.undo()


def test_a_token_does_not_outlive_a_boot(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    token = public(cluster.new_token(sockets.public_of))
    monkeypatch.setattr(keys, "_boot", lambda: "another")
    with pytest.raises(TokenError, match="has expired"):
        cluster.use_token(token)


def test_a_token_of_another_cluster_is_not_known(cluster: Cluster) -> None:
    other = Cluster.begin("127.0.0.1:7422", sockets.new_pair)
    token = public(other.new_token(sockets.public_of))
    assert not cluster.knows_token(token)
    with pytest.raises(TokenError, match="has not made"):
        cluster.use_token(token)


def test_no_more_tokens_are_remembered_than_that(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_TOKENS", 3)
    made = []
    for n in range(5):
        made.append(public(cluster.new_token(sockets.public_of)))
        os.utime(cluster._token(made[-1]), (n, n))
    assert [cluster.knows_token(token) for token in made] == [False, False, True, True, True]


def test_a_file_with_a_token_must_be_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(0o644)
    with pytest.raises(TokenError, match=f"CELLMESH_TOKEN_FILE.*{path}.*chmod 600"):
        keys.read_token_file(str(path))
    path.chmod(0o600)
    assert keys.read_token_file(str(path)) == "secret"
    with pytest.raises(TokenError, match="No such file"):
        keys.read_token_file(str(tmp_path / "none"))


def test_all_of_a_token_is_letters_and_digits() -> None:
    text = Token(bytes(32), bytes(16)).text
    assert len(text) == 8 + 85 and base64.b32decode(text[8:].upper() + "===")
