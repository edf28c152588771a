"""The webhook server over real sockets, with clients that behave and clients that do not.

Usage: test_wire.py HARNESS [unittest arguments]
"""
import base64
import http.client
import json
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import unittest
import warnings

HARNESS = None
MIB = 1 << 20
AUTH = {"Content-Type": "application/json"}


def review(name="job", uid="u-1", **more):
    request = {
        "uid": uid,
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "operation": "CREATE",
        "object": {"metadata": {"name": name}, "spec": {"parallelism": 1}},
    }
    request.update(more)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def text(value):
    return json.dumps(value).encode()


def sized(size):
    """A good review of exactly this many bytes."""
    body = review(pad="")
    body["request"]["pad"] = "x" * (size - len(text(body)))
    assert len(text(body)) == size
    return text(body)


class Server:
    def __init__(self, **options):
        self.process = subprocess.Popen(
            [HARNESS] + ["%s=%d" % item for item in options.items()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hello = json.loads(self.process.stdout.readline())
        self.port, self.health, self.metrics = hello["port"], hello["health"], hello["metrics"]
        self.context = ssl.create_default_context(cadata=hello["ca"])
        self.lock = threading.Lock()
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for client in self.clients:
            client.close()
        try:
            self.process.stdin.close()
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "does not stop"
        self.process.stdout.close()
        if kind is None and code != 0:  # sanitizers and snapshots that were not released end here
            raise AssertionError("harness ended with %s" % code)

    def say(self, line):
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def plain(self, timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def raw(self, timeout=30):
        return self.context.wrap_socket(self.plain(timeout), server_hostname="localhost")

    def client(self, timeout=30):
        client = http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=self.context)
        self.clients.append(client)
        return client

    def settle(self, what="in_flight", value=0):
        """Waits until a figure has a value: the server notices the end of a connection in its own time."""
        for _ in range(1000):
            stats = self.say("stats")
            if stats[what] == value:
                return stats
            time.sleep(0.01)
        raise AssertionError("%s stays %d, not %d" % (what, stats[what], value))


def call(client, body, path="/mutate", method="POST", headers=AUTH):
    client.request(method, path, body if isinstance(body, (bytes, type(None))) else text(body), headers)
    answer = client.getresponse()
    return answer, answer.read()


def read_answer(sock):
    """Status, headers in lower case, body of one answer; None at the end of the stream."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            piece = sock.recv(65536)
        except (ConnectionError, ssl.SSLError):
            piece = b""
        if not piece:
            return None
        data += piece
    head, data = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    length = int(headers["content-length"])
    while len(data) < length:
        piece = sock.recv(65536)
        if not piece:
            return None
        data += piece
    return int(lines[0].split()[1]), headers, data[:length], data[length:]


def post(body, *headers, path="/mutate", length=None, host="Host: localhost"):
    lines = ["POST %s HTTP/1.1" % path] + ([host] if host else [])
    lines += ["Content-Type: application/json"]
    if length is not False:
        lines.append("Content-Length: %s" % (len(body) if length is None else length))
    return "\r\n".join(lines + list(headers)).encode() + b"\r\n\r\n" + body


class Reviews(unittest.TestCase):
    def test_answers(self):
        with Server() as server:
            client = server.client()
            answer, body = call(client, review(uid="abc"), path="/mutate?timeout=5s")
            self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, "application/json"))
            got = json.loads(body)
            self.assertEqual((got["apiVersion"], got["kind"]), ("admission.k8s.io/v1", "AdmissionReview"))
            response = got["response"]
            patch = json.loads(base64.b64decode(response.pop("patch")))
            self.assertEqual(patch, [{"op": "add", "path": "/spec/suspend", "value": True}])
            self.assertEqual(response, {"uid": "abc", "allowed": True, "patchType": "JSONPatch", "warnings": ["held"]})

            held = review()
            held["request"]["object"]["spec"]["suspend"] = True
            self.assertEqual(json.loads(call(client, held)[1])["response"], {"uid": "u-1", "allowed": True})

            answer, body = call(client, review(name='bad"1'), path="/validate")
            self.assertEqual(answer.status, 200)
            self.assertEqual(json.loads(body)["response"], {
                "uid": "u-1", "allowed": False,
                "status": {"status": "Failure", "code": 403, "reason": "Forbidden",
                           "message": 'metadata.name: Invalid value: "bad"1": must not be bad'}})
            self.assertEqual(server.say("stats")["connections"], 1)

    def test_conversion(self):
        with Server(convert_max=MIB) as server:
            client = server.client()

            def convert(*objects):
                return call(client, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
                    "uid": "c", "desiredAPIVersion": "g/v2", "objects": list(objects)}}, path="/convert")
            one = {"apiVersion": "g/v1", "kind": "Q", "metadata": {"name": "a"}}
            answer, body = convert(one, dict(one, apiVersion="g/v2"))
            self.assertEqual(json.loads(body)["response"], {
                "uid": "c", "convertedObjects": [dict(one, apiVersion="g/v2")] * 2, "result": {"status": "Success"}})
            answer, body = convert(one, dict(one, metadata={"name": "stuck", "namespace": "n"}))
            self.assertEqual(json.loads(body)["response"], {
                "uid": "c", "convertedObjects": [],
                "result": {"status": "Failure", "message": "objects[1] Q n/stuck: spec.x: cannot be told"}})
            self.assertEqual(convert(dict(one, pad="x" * MIB))[0].status, 413)

    def test_bad_reviews_are_400_and_the_connection_lives(self):
        with Server() as server:
            client = server.client()
            deep = review()
            deep["request"]["object"] = 0
            deep = text(deep).replace(b'"object": 0', b'"object": ' + b"[" * 63 + b"]" * 63)  # 65 levels
            bad = {
                b"": "JSON", b"{": "JSON", b"null": "JSON", b"[]": "not a JSON object", b"\xff\xfe{}": "JSON",
                text(review()) + b"}": "JSON", b"{}": "kind", b'{"kind":"AdmissionReview"}': "apiVersion",
                text(dict(review(), apiVersion="admission.k8s.io/v1beta1")): "apiVersion",
                text(dict(review(), kind="ConversionReview")): "kind",
                text(dict(review(), request=None)): "request: required",
                text(dict(review(), request=[])): "request: required",
                text(review(uid="")): "request.uid", text(review(uid=7)): "request.uid",
                deep: "deeper than 64", b"[" * 100000: "deeper than 64",
            }
            for body, why in bad.items():
                answer, said = call(client, body)
                self.assertEqual(answer.status, 400, (body[:80], said))
                self.assertTrue(answer.getheader("Content-Type").startswith("text/plain"))
                self.assertIn(why, said.decode(), body[:80])
            fine = text(review()).replace(b'"parallelism": 1', b'"parallelism": ' + b"[" * 60 + b"]" * 60)  # 64 levels
            self.assertEqual(call(client, fine)[0].status, 200)
            self.assertEqual(server.say("stats")["connections"], 1)

    def test_size_limit_is_exact(self):
        with Server() as server:
            client = server.client()
            self.assertEqual(call(client, sized(7 * MIB))[0].status, 200)
            answer, said = call(client, sized(7 * MIB + 1))
            self.assertEqual((answer.status, said), (413, b"the review is too large\n"))
            self.assertEqual(call(client, review())[0].status, 200, "the refused body was read to its end")
            many = text(review()).replace(b'"parallelism": 1', b'"x":[' + b"{}," * 260000 + b"{}]")
            self.assertEqual(call(client, many)[0].status, 413)
            self.assertEqual(server.settle()["body_bytes"], 0)

    def test_chunked(self):
        with Server() as server:
            client = server.client()
            client.request("POST", "/mutate", iter([text(review())[:50], text(review())[50:]]), AUTH, encode_chunked=True)
            self.assertEqual(client.getresponse().read()[:1], b"{")
            client.request("POST", "/mutate", iter([b"x" * MIB] * 9), AUTH, encode_chunked=True)
            answer = client.getresponse()
            self.assertEqual((answer.status, answer.read()), (413, b"the review is too large\n"))

    def test_path_method_type(self):
        with Server() as server:
            client = server.client()
            self.assertEqual(call(client, review(), path="/nothing")[0].status, 404)
            self.assertEqual(call(client, review(), path="/mutate/")[0].status, 404)
            answer = call(client, None, method="GET")[0]
            self.assertEqual((answer.status, answer.getheader("Allow")), (405, "POST"))
            self.assertEqual(call(client, review(), method="PUT")[0].status, 405)
            for kind in ("text/plain", "application/jsonx", "application/json, text/plain"):
                self.assertEqual(call(client, review(), headers={"Content-Type": kind})[0].status, 415, kind)
            self.assertEqual(call(client, review(), headers={})[0].status, 415)
            self.assertEqual(call(client, review(), headers=dict(AUTH, **{"Content-Encoding": "gzip"}))[0].status, 415)
            self.assertEqual(call(client, review(), headers={"Content-Type": "Application/JSON; charset=utf-8"})[0].status, 200)
            self.assertEqual(server.say("stats")["connections"], 1)

    def test_no_snapshot_yet(self):
        with Server() as server:
            client = server.client()
            server.say("unready")
            answer, said = call(client, review())
            self.assertEqual((answer.status, answer.getheader("Retry-After")), (503, "1"))
            self.assertIn(b"not ready", said)
            server.say("ready")
            self.assertEqual(call(client, review())[0].status, 200)


class Framing(unittest.TestCase):
    def test_what_could_be_read_in_two_ways_is_refused(self):
        body = text(review())
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        cases = {
            "two lengths": post(body, "Content-Length: 3"),
            "the same length twice": post(body, "Content-Length: %d" % len(body)),
            "length and chunks": post(chunks, "Transfer-Encoding: chunked"),
            "no host": post(body, host=None),
            "two hosts": post(body, "Host: other"),
            "two encodings": post(chunks, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", length=False),
            "a sign": post(body, length="+%d" % len(body)),
            "no number": post(body, length="many"),
            "negative": post(body, length="-1"),
            "huge": post(body, length="99999999999999999999999999"),
        }
        with Server() as server:
            for name, request in cases.items():
                with self.subTest(name), server.raw() as sock:
                    sock.sendall(request)
                    status, headers, _, _ = read_answer(sock)
                    self.assertIn(status, (400, 413))
                    self.assertEqual(headers.get("connection"), "close")
                    self.assertIsNone(read_answer(sock), "nothing after it")
            self.assertEqual(call(server.client(), review())[0].status, 200)

    def test_huge_declared_length_costs_nothing(self):
        with Server() as server, server.raw() as sock:
            sock.sendall(post(b"", length=1 << 40))
            self.assertEqual(read_answer(sock)[0], 413)
            self.assertEqual(server.settle()["body_bytes"], 0)

    def test_headers_too_large(self):
        with Server() as server:
            with server.raw() as sock:
                sock.sendall(b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40000 + b"\r\n\r\n")
                answer = read_answer(sock)
                self.assertTrue(answer is None or answer[0] in (413, 431), answer)
            with server.raw() as sock:
                sock.sendall(post(text(review()), "X: " + "x" * 12000))
                self.assertEqual(read_answer(sock)[0], 200)
            server.settle("connections", 0)

    def test_garbage(self):
        with Server() as server:
            for junk in (b"\0" * 100, b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"POST /mutate HTTP/9.9\r\n\r\n", b"\x16\x03\x01" * 50, b"A" * 100000):
                with server.raw() as sock:
                    try:
                        sock.sendall(junk)
                        sock.settimeout(3)
                        while sock.recv(65536):
                            pass
                    except OSError:
                        pass
                with server.plain() as sock:  # and where a handshake should be
                    try:
                        sock.sendall(junk)
                        sock.settimeout(3)
                        while sock.recv(65536):
                            pass
                    except OSError:
                        pass
            self.assertEqual(call(server.client(), review())[0].status, 200)
            server.settle("in_flight", 0)

    def test_pipelined(self):
        with Server() as server, server.raw() as sock:
            sock.sendall(b"".join(post(text(review(uid="p%d" % i))) for i in range(50)))
            rest = b""
            data = b""
            while data.count(b'"allowed":true') < 50:
                piece = sock.recv(65536)
                self.assertTrue(piece)
                data += piece
            uids = re.findall(rb'"uid":"(p\d+)"', data)
            self.assertEqual(uids, [b"p%d" % i for i in range(50)], "each once, in order")

    def test_any_cut(self):
        """The request in two pieces, cut at every place: over TLS two records."""
        request = post(text(review()))
        with Server() as server, server.raw() as sock:
            for cut in range(1, len(request), 7):
                sock.sendall(request[:cut])
                sock.sendall(request[cut:])
                self.assertEqual(read_answer(sock)[0], 200, cut)


class Time(unittest.TestCase):
    """Limits of time are made small; the tests wait for what happens and do not measure how long it took."""

    def closed(self, sock):
        try:
            while sock.recv(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass

    def late(self, sock):
        """A client that listens is told before the connection ends."""
        status, headers, body, rest = read_answer(sock)
        self.assertEqual((status, body, rest), (408, b"the request took too long\n", b""))
        self.assertEqual(headers["connection"], "close")
        self.closed(sock)

    def test_a_body_that_trickles_is_answered(self):
        request = post(text(review()))
        with Server(request_ms=1500, idle_ms=60000) as server:
            with server.raw() as sock:
                sock.sendall(request[:-60])
                sock.settimeout(0.02)
                got = b""
                for i in range(60):  # a piece at a time; the answer is there as soon as one comes too late
                    try:
                        sock.sendall(request[i - 60:i - 59 or None])
                        got += sock.recv(65536)
                    except TimeoutError:
                        time.sleep(0.05)
                    except OSError:
                        break
                    if got:
                        break
                self.assertTrue(got.startswith(b"HTTP/1.1 408 "), got)
            # nobody else waits for such clients: with one thread and twenty of them, others are answered
        with Server(request_ms=20000, threads=1) as server:
            slow = [server.raw() for _ in range(20)]
            for sock in slow:
                sock.sendall(request[:-1])
            client = server.client()
            for i in range(5):
                self.assertEqual(call(client, review())[0].status, 200)
            for sock in slow:
                sock.close()

    def test_slow_clients_are_cut(self):
        request = post(text(review()))
        with Server(request_ms=400, idle_ms=60000) as server:
            def drip(sock, data):
                try:
                    for i in range(len(data)):
                        sock.sendall(data[i:i + 1])
                        time.sleep(0.05)
                except OSError:
                    return True
                return False
            with self.subTest("slow first line"), server.raw() as sock:
                self.assertTrue(drip(sock, request))
            with self.subTest("slow headers"), server.raw() as sock:
                sock.sendall(request[:30])
                self.assertTrue(drip(sock, request[30:]))
            with self.subTest("slow body"), server.raw() as sock:
                sock.sendall(request[:-60])
                self.assertTrue(drip(sock, request[-60:]))
            for missing in (1, 60, len(request) - 30):
                with self.subTest("request that stops", missing=missing), server.raw() as sock:
                    sock.sendall(request[:-missing])
                    self.late(sock)
            with self.subTest("second request that stops"), server.raw() as sock:
                sock.sendall(request + request[:-1])
                self.assertEqual(read_answer(sock)[0], 200)
                self.late(sock)
            with self.subTest("no handshake"), server.plain() as sock:
                self.closed(sock)
            with self.subTest("slow handshake"), server.plain() as sock:
                self.assertTrue(drip(sock, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500))
            with self.subTest("answer not read"), server.raw() as sock:
                # pipelined until the socket is full in both directions
                sock.settimeout(20)
                try:
                    while True:
                        sock.sendall(request * 100)
                except OSError:
                    pass
            stats = server.settle("connections", 0)
            self.assertEqual((stats["in_flight"], stats["body_bytes"]), (0, 0))

    def test_idle_is_not_late(self):
        with Server(request_ms=300, idle_ms=60000) as server:
            client = server.client()
            self.assertEqual(call(client, review())[0].status, 200)
            local = client.sock.getsockname()
            time.sleep(1)  # three times the time of a request: the connection must still be there
            self.assertEqual(call(client, review())[0].status, 200)
            self.assertEqual(client.sock.getsockname(), local, "the same connection")

    def test_idle_ends(self):
        with Server(request_ms=5000, idle_ms=300) as server, server.raw() as sock:
            sock.sendall(post(text(review())))
            self.assertEqual(read_answer(sock)[0], 200)
            self.closed(sock)
            server.settle("connections", 0)


class Load(unittest.TestCase):
    def test_thousand_requests_on_one_connection(self):
        with Server() as server:
            client = server.client()
            for i in range(1000):
                answer, body = call(client, review(uid="n%d" % i))
                self.assertEqual(answer.status, 200)
                self.assertIn(b'"uid":"n%d"' % i, body)
            self.assertEqual(server.say("stats")["connections"], 1)

    def test_more_connections_than_places(self):
        with Server(connections=20, threads=2, request_ms=500) as server:
            idle = [server.plain() for _ in range(60)]  # never say anything; the rest waits in the kernel's queue
            client = server.client(timeout=60)
            self.assertEqual(call(client, review())[0].status, 200, "served when the idle ones have been cut")
            for sock in idle:
                sock.close()
            self.assertLessEqual(server.say("stats")["connections"], 20)

    def test_many_idle_connections(self):
        with Server(connections=400) as server:
            for _ in range(300):
                client = server.client()
                client.connect()
            for client in server.clients[::10]:
                self.assertEqual(call(client, review())[0].status, 200)
            self.assertEqual(server.say("stats")["connections"], 300)

    def test_idle_connections_give_way(self):
        """Connections that were used and are kept are cut earlier when nearly all places are taken."""
        with Server(connections=8, threads=1, request_ms=400, idle_ms=600000) as server:
            kept = []
            for _ in range(8):
                client = server.client()
                self.assertEqual(call(client, review())[0].status, 200)
                kept.append(client)
            self.assertEqual(call(server.client(timeout=60), review())[0].status, 200)

    def test_bytes_in_flight_are_bounded(self):
        with Server(in_flight=3 * MIB, threads=1) as server:
            body = sized(2 * MIB)
            waiting = server.raw()
            waiting.sendall(post(body)[:-1])
            stats = server.settle("body_bytes", 2 * MIB - 1)
            answer, said = call(server.client(), body)
            self.assertEqual((answer.status, answer.getheader("Retry-After"), said), (503, "1", b"too many reviews at once\n"))
            self.assertEqual(call(server.client(), review())[0].status, 200, "a small one still fits")
            waiting.sendall(body[-1:])
            self.assertEqual(read_answer(waiting)[0], 200)
            self.assertEqual(server.settle()["body_bytes"], 0)
            self.assertEqual(call(server.client(), body)[0].status, 200)
            waiting.close()

    def test_memory_is_given_back(self):
        with Server() as server:
            client = server.client()
            call(client, review())
            before = server.say("stats")
            if before["sanitized"]:
                self.skipTest("the sanitizer's allocator gives nothing back; run it with an ordinary build")
            many = text(review()).replace(b'"parallelism": 1', b'"x":[' + b'{"a":{}},' * 80000 + b"{}]")
            for _ in range(5):
                self.assertEqual(call(client, many)[0].status, 200)
            self.assertLess(server.say("stats")["resident_kib"], before["resident_kib"] + 8 * 1024)

    def test_reset_anywhere(self):
        request = post(sized(100000))
        with Server() as server:
            before = server.settle("connections", 0)
            for cut in (1, 10, 60, 120, 130, 5000, 50000, len(request) - 1, len(request)):
                for tls in (True, False):
                    sock = server.raw() if tls else server.plain()
                    sock.sendall(request[:cut])
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.close()  # RST
            stats = server.settle("connections", 0)
            self.assertEqual((stats["in_flight"], stats["body_bytes"]), (0, 0))
            server.settle("descriptors", before["descriptors"])
            self.assertEqual(call(server.client(), review())[0].status, 200)


class Certificates(unittest.TestCase):
    def serial(self, server):
        with server.raw() as sock:
            return sock.getpeercert()["serialNumber"]

    def test_new_certificate_is_served_at_once(self):
        with Server() as server:
            old = server.raw()
            before = old.getpeercert()["serialNumber"]
            server.say("swap")
            self.assertNotEqual(self.serial(server), before)
            old.sendall(post(text(review())))
            self.assertEqual(read_answer(old)[0], 200, "connections of the old one go on")
            old.close()

    def test_swap_under_load_without_a_failed_request(self):
        with Server() as server:
            errors, done, stop = [], [0] * 4, threading.Event()

            def work(k):
                client = None
                try:
                    while not stop.is_set():
                        if client is None or done[k] % 5 == 0:
                            if client:
                                client.close()
                            client = server.client()
                        answer, body = call(client, review(uid="w%d" % done[k]))
                        if answer.status != 200 or b'"uid":"w%d"' % done[k] not in body:
                            errors.append((answer.status, body))
                        done[k] += 1
                except Exception as e:  # every failure counts, of whatever kind
                    errors.append(e)
            threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
            for t in threads:
                t.start()
            for swap in range(30):
                goal = sum(done) + 10
                self.assertGreater(server.say("swap")["generation"], swap)
                while sum(done) < goal and not errors:
                    time.sleep(0.002)
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(errors, [])
            self.assertGreaterEqual(sum(done), 300)

    def test_versions_and_ciphers(self):
        with Server() as server:
            warnings.simplefilter("ignore", DeprecationWarning)  # asking for an old version is the point
            for version, fine in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
                context = ssl.create_default_context()
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.minimum_version = context.maximum_version = version
                try:
                    with context.wrap_socket(server.plain()) as sock:
                        self.assertTrue(fine, version)
                        self.assertRegex(sock.cipher()[0], "GCM|CHACHA20")
                        key = ssl.DER_cert_to_PEM_cert(sock.getpeercert(True))
                        self.assertLess(len(key), 1200, "a small key: P-256")
                except ssl.SSLError:
                    self.assertFalse(fine, version)
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0")
            with self.assertRaises(ssl.SSLError), context.wrap_socket(server.plain()):
                pass


class Shutdown(unittest.TestCase):
    def test_drain(self):
        with Server() as server:
            kept, client = server.client(), server.client()
            call(kept, review())
            self.assertIsNone(call(client, review())[0].getheader("Connection"))
            self.assertEqual(server.say("drain 0 60000"), {"empty": True})
            answer = call(kept, review())[0]
            self.assertEqual((answer.status, answer.getheader("Connection").lower()), (200, "close"))
            self.assertEqual(call(server.client(), review())[0].status, 200, "new connections are still served")

    def test_drain_waits_for_what_is_in_flight(self):
        with Server() as server:
            sock = server.raw()
            body = text(review())
            sock.sendall(post(body)[:-1])
            server.settle("in_flight", 1)
            self.assertEqual(server.say("drain 0 300"), {"empty": False})
            result = []
            drain = threading.Thread(target=lambda: result.append(server.say("drain 0 60000")))
            drain.start()
            sock.sendall(body[-1:])
            self.assertEqual(read_answer(sock)[0], 200)
            drain.join()
            self.assertEqual(result, [{"empty": True}])
            sock.close()

    def test_stop_under_load(self):
        """Every answer that comes is whole; connections may end, nothing crashes."""
        for _ in range(5):
            with Server(threads=3) as server:
                wrong = []

                def work():
                    try:
                        while True:
                            client = server.client()
                            for _ in range(10):
                                answer, body = call(client, review())
                                if answer.status != 200 or not body.endswith(b"}}"):
                                    wrong.append(body)
                    except (OSError, http.client.HTTPException):
                        pass
                threads = [threading.Thread(target=work) for _ in range(4)]
                for t in threads:
                    t.start()
                while server.say("stats")["connections"] < 3:
                    time.sleep(0.01)
                server.process.stdin.write("quit\n")
                server.process.stdin.flush()
                self.assertEqual(server.process.wait(60), 0)
                for t in threads:
                    t.join()
                self.assertEqual(wrong, [])


class Probes(unittest.TestCase):
    def get(self, client, path, method="GET", body=None):
        client.request(method, path, body)
        answer = client.getresponse()
        return answer.status, answer.read().decode()

    def test_health(self):
        with Server() as server:
            client = http.client.HTTPConnection("127.0.0.1", server.health, timeout=30)
            server.clients.append(client)
            self.assertEqual(self.get(client, "/healthz"), (200, "ok\n"))
            self.assertEqual(self.get(client, "/readyz"), (200, "ok\n"))
            server.say("unready")
            self.assertEqual(self.get(client, "/readyz"), (503, "caches are not filled\n"))
            self.assertEqual(self.get(client, "/healthz")[0], 200)
            self.assertEqual(self.get(client, "/metrics")[0], 404)
            self.assertEqual(self.get(client, "/healthz", "HEAD"), (200, ""))
            self.assertEqual(self.get(client, "/healthz", "POST")[0], 405)
            self.assertEqual(self.get(client, "/healthz", "POST", b"x")[0], 400)

    def test_metrics(self):
        with Server() as server:
            client = server.client()
            call(client, review())
            call(client, review(name="bad"), path="/validate")
            call(client, review(), path="/unknown")
            call(client, b"{", path="/mutate")
            with server.raw() as sock:
                sock.sendall(post(text(review()))[:-1])
                server.settle("in_flight", 1)
            server.settle("in_flight", 0)
            scrape = http.client.HTTPSConnection("localhost", server.metrics, timeout=30, context=server.context)
            server.clients.append(scrape)
            status, page = self.get(scrape, "/metrics")
            self.assertEqual(status, 200)
            lines = page.split("\n")
            for line in ('sluice_webhook_requests_total{path="/mutate",code="200"} 1',
                         'sluice_webhook_requests_total{path="/mutate",code="400"} 1',
                         'sluice_webhook_requests_total{path="/mutate",code="0"} 1',
                         'sluice_webhook_requests_total{path="other",code="404"} 1',
                         'sluice_webhook_denials_total{path="/validate"} 1',
                         'sluice_webhook_seconds_count{path="/validate"} 1'):
                self.assertIn(line, lines)
            self.assertEqual(self.get(scrape, "/healthz")[0], 404)


if __name__ == "__main__":
    HARNESS = sys.argv.pop(1)
    unittest.main()
