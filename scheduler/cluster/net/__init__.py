"""Sockets between machines: addresses, keys, reliable delivery; never what messages ask for. Nothing else imports zmq.

| link          | bound by      | connected by           | who may connect       | bound                               |
|---------------|---------------|------------------------|-----------------------|-------------------------------------|
| head          | head, ROUTER  | agent, command: DEALER | see `HeadSocket`      | CONTROL_MESSAGES, then it ends      |
| peer, one way | agent, ROUTER | agent: DEALER          | keys of living nodes  | reliable.BUDGET_BYTES for each peer |

Every one is CURVE: encrypted, and both ends know the other's key before they look at a byte from it. A bound socket has
a gate that is asked about the client's key (ZAP; without an answer libzmq lets no client in), and every message carries
the key that it came from, so no client can speak for another. A client goes nowhere but to the server key that it
expects.

Limits before parsing: a handshake ends within two seconds, a frame is at most as large as the link allows, a message
has MAX_PARTS parts at most, a decoder knows its own union and no other message.

Reliability. Peers: each message once and in order, over broken connections too, see `reliable`. Head: each connection
is new. An end that finds it broken, or choked, gives it up; the agent registers again on the next one and says again
what it wants. An empty frame from the head says that it has given the connection up.

A connection on which the other machine does not answer for two seconds has broken (see `sockets`), and one between
peers on which nothing is acknowledged for long, whatever TCP thinks. Nothing is sent for that while nothing else is.

Known weaknesses. libzmq limits frames, not the parts of a message: a *member* can make this process hold many parts;
members may run code here anyway. A flood of connections costs a handshake each (0.2 ms) before it is refused, and a
descriptor for two seconds. libzmq opens a descriptor for each connection: see to RLIMIT_NOFILE.
"""
