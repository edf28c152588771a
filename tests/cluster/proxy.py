"""A TCP proxy inside the cluster's network, whose connections a test can cut, stall or refuse."""
import selectors
import socket
import struct
import threading

LIMIT = 1 << 20  # what it holds of one direction before it stops reading


class Proxy:
    """listens on `port`, forwards to `target` (host, port); runs in a thread until close()"""

    def __init__(self, cluster, port, target=None):
        self.target = target or ("127.0.0.1", cluster.PORT)
        self.port, self.accepted = port, 0
        self.stalled = self.refusing = False
        self.commands, self.done = [], threading.Event()
        self.lock = threading.Lock()
        self.sel = selectors.DefaultSelector()
        self.peer, self.out = {}, {}
        self.wake_r, self.wake_w = socket.socketpair()
        self.wake_r.setblocking(False)
        self.wake_w.setblocking(False)
        with cluster.inside():
            self.listener = self._listen()
            self.thread = threading.Thread(target=self._run, name="proxy", daemon=True)  # inherits the namespace
            self.thread.start()

    def _listen(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", self.port))
        s.listen(256)
        s.setblocking(False)
        return s

    # --- what a test says; each returns when it is done ---

    def cut(self):
        """reset every connection there is; new ones are welcome"""
        self._say("cut")

    def stall(self):
        """keep connections open and pass nothing on: a network that went silent"""
        self._say("stall")

    def resume(self):
        self._say("resume")

    def refuse(self):
        """cut, and take no new connections until resume"""
        self._say("refuse")

    def close(self):
        if self.thread.is_alive():
            self._say("close")
            self.thread.join()

    def connections(self):
        with self.lock:
            return len(self.peer) // 2

    def _say(self, what):
        self.done.clear()
        self.commands.append(what)
        self.wake_w.send(b"x")
        if not self.done.wait(30):
            raise RuntimeError("the proxy does not answer")

    # --- the thread ---

    def _run(self):
        self.sel.register(self.wake_r, selectors.EVENT_READ)
        self.sel.register(self.listener, selectors.EVENT_READ)
        closing = False
        while not closing:
            for key, mask in self.sel.select():
                if key.fileobj is self.wake_r:
                    self.wake_r.recv(100)
                    while self.commands:
                        closing |= self._command(self.commands.pop(0))
                    break  # the rest of these events may be about sockets that are gone
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj in self.peer:
                    self._move(key.fileobj, mask)

    def _command(self, what):
        if what in ("cut", "refuse", "close"):
            for s in list(self.peer):
                self._drop(s, reset=True)
        if what in ("refuse", "close") and self.listener:
            self.sel.unregister(self.listener)
            self.listener.close()
            self.listener = None
        if what in ("stall", "resume"):
            self.stalled = what == "stall"
            for s in self.peer:
                self._interest(s)
        if what == "resume" and not self.listener:
            self.listener = self._listen()
            self.sel.register(self.listener, selectors.EVENT_READ)
        self.done.set()
        return what == "close"

    def _accept(self):
        try:
            a, _ = self.listener.accept()
        except OSError:
            return
        b = socket.socket()
        try:
            b.connect(self.target)
        except OSError:
            a.close()
            b.close()
            return
        self.accepted += 1
        for s in (a, b):
            s.setblocking(False)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.out[s] = bytearray()
        with self.lock:
            self.peer[a], self.peer[b] = b, a
        for s in (a, b):
            self.sel.register(s, selectors.EVENT_READ)
            self._interest(s)

    def _interest(self, s):
        want = 0
        if not self.stalled:
            if len(self.out[self.peer[s]]) < LIMIT:
                want |= selectors.EVENT_READ
            if self.out[s]:
                want |= selectors.EVENT_WRITE
        registered = s in self.sel.get_map()
        if want and registered:
            self.sel.modify(s, want)
        elif want:
            self.sel.register(s, want)
        elif registered:
            self.sel.unregister(s)

    def _move(self, s, mask):
        other = self.peer[s]
        try:
            if mask & selectors.EVENT_READ:
                data = s.recv(65536)
                if not data:
                    while self.out[other]:  # what is on its way still arrives
                        other.setblocking(True)
                        other.settimeout(2)
                        n = other.send(self.out[other])
                        del self.out[other][:n]
                    return self._drop(s)
                self.out[other] += data
            for x in (s, other):
                if self.out[x]:
                    try:
                        n = x.send(self.out[x])
                        del self.out[x][:n]
                    except BlockingIOError:
                        pass
        except BlockingIOError:
            pass
        except OSError:
            return self._drop(s)
        self._interest(s)
        self._interest(other)

    def _drop(self, s, reset=False):
        with self.lock:
            other = self.peer.pop(s, None)
            if other is None:
                return
            self.peer.pop(other)
        for x in (s, other):
            self.out.pop(x)
            if x in self.sel.get_map():
                self.sel.unregister(x)
            if reset:
                x.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            x.close()
