#!/usr/bin/env python3
"""The client's TLS side against a server we play: whom it trusts, who it says it is, and what happens when files change.

  test_tls.py PROBE      PROBE is the kube_probe program
"""
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

PROBE = None


def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Pki:
    """A CA and what it signs, as files in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", self.path("ca.key"), "-out", self.path("ca.crt"))

    def path(self, name):
        return os.path.join(self.folder, f"{self.name}-{name}")

    def sign(self, leaf, san):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={leaf}",
                "-keyout", self.path(leaf + ".key"), "-out", self.path(leaf + ".csr"))
        with open(self.path("ext"), "w") as f:
            f.write(f"subjectAltName={san}\n")
        openssl("x509", "-req", "-days", "2", "-in", self.path(leaf + ".csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"),
                "-CAcreateserial", "-extfile", self.path("ext"), "-out", self.path(leaf + ".crt"))
        return self.path(leaf + ".crt"), self.path(leaf + ".key")


class Server:
    """Answers every request with what it saw."""

    def __init__(self, cert, client_ca=None, port=0):
        outer = self
        self.seen, self.refuse, self.connections = [], set(), set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                outer.connections.add(self.request)
                super().setup()

            def finish(self):
                super().finish()
                outer.connections.discard(self.request)

            def do_GET(self):
                peer = self.connection.getpeercert()
                who = dict(x[0] for x in peer["subject"])["commonName"] if peer else "nobody"
                outer.seen.append((self.path, self.headers["Host"], self.headers.get("Authorization"), who, self.server.sni.pop() if self.server.sni else None))
                body = json.dumps({"metadata": {"name": who, "resourceVersion": "1"}}).encode()
                self.send_response(401 if who in outer.refuse else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(*cert)
        if client_ca:
            ctx.load_verify_locations(client_ca)
            ctx.verify_mode = ssl.CERT_REQUIRED
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler, bind_and_activate=False)
        self.http.allow_reuse_address = True
        self.http.server_bind()
        self.http.server_activate()
        self.http.daemon_threads = True
        self.http.sni = []
        self.http.handle_error = lambda *args: None  # refused handshakes are part of the tests
        ctx.sni_callback = lambda sock, name, context: self.http.sni.append(name)
        self.http.socket = ctx.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        for c in list(self.connections):
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it went by itself
        self.thread.join()


class Probe:
    def __init__(self, kubeconfig):
        env = dict(os.environ, https_proxy="http://127.0.0.1:1", HTTPS_PROXY="http://127.0.0.1:1", ALL_PROXY="http://127.0.0.1:1")
        self.err = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([PROBE, kubeconfig], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, text=True, env=env)
        self.first = self.p.stdout.readline().strip()

    def get(self, tag):
        """code and the name in the answer of one GET"""
        self.p.stdin.write(f"get {tag} configmaps ns thing - - -\n")
        self.p.stdin.flush()
        for line in self.p.stdout:
            words = line.split()
            if words[:2] == ["REPLY", tag]:
                return int(words[2]), words[5], " ".join(words[7:])
        raise AssertionError("the probe ended")

    def close(self):
        self.p.stdin.write("quit\n")
        self.p.stdin.close()
        rest = self.p.stdout.read()
        self.p.stdout.close()
        code = self.p.wait()
        self.err.seek(0)
        log = self.err.read()
        self.err.close()
        assert code == 0, rest + log
        assert "secret" not in log + rest and "BEGIN" not in log + rest, log


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sluice-tls-")
        cls.one, cls.two = Pki(cls.folder, "one"), Pki(cls.folder, "two")
        cls.cert_one = cls.one.sign("server", "IP:127.0.0.1,DNS:kubernetes")
        cls.cert_two = cls.two.sign("server", "IP:127.0.0.1")
        cls.named = cls.one.sign("named", "DNS:kubernetes.default.svc")
        cls.alice = cls.one.sign("alice", "DNS:alice")
        cls.bob = cls.one.sign("bob", "DNS:bob")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.mine = tempfile.mkdtemp(dir=self.folder)

    def file(self, name, source):
        """a file of this test with the content of another, put there at once"""
        path = os.path.join(self.mine, name)
        shutil.copy(source, path + ".new")
        os.rename(path + ".new", path)
        return path

    def config(self, port, cluster, user):
        path = os.path.join(self.mine, "config")
        with open(path, "w") as f:
            json.dump({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                       "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{port}", **cluster}}], "users": [{"name": "u", "user": user}]}, f)
        return path

    def serve(self, *args, **kw):
        server = Server(*args, **kw)
        self.addCleanup(server.close)
        return server

    def probe(self, *args):
        probe = Probe(self.config(*args))
        self.assertEqual(probe.first, "READY")
        self.addCleanup(probe.close)
        return probe

    def test_trusts_the_ca_and_no_other(self):
        server = self.serve(self.cert_one)
        self.assertEqual(self.probe(server.port, {"certificate-authority": self.one.path("ca.crt")}, {"token": "secret"}).get("a")[0], 0)
        self.assertEqual(server.seen[0][2], "Bearer secret")
        self.assertEqual(server.seen[0][0], "/api/v1/namespaces/ns/configmaps/thing")

    def test_a_foreign_ca_is_not_trusted(self):
        server = self.serve(self.cert_two)
        probe = Probe(self.config(server.port, {"certificate-authority": self.one.path("ca.crt")}, {"token": "secret"}))
        probe.p.stdin.write("get a configmaps ns thing - - -\n")
        probe.p.stdin.flush()
        threading.Event().wait(1.5)  # several attempts
        self.assertEqual(server.seen, [])
        probe.close()

    def test_the_distribution_s_cas_are_not_trusted_besides_ours(self):
        """libcurl 7.88 in Debian: CURLOPT_CAINFO alone leaves CAPATH /etc/ssl/certs in place. When this passes with CAPATH left alone, that line can go."""
        hashed = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", self.two.path("ca.crt")], check=True, capture_output=True, text=True).stdout.strip()
        link = next(p for p in (f"/etc/ssl/certs/{hashed}.{i}" for i in range(10)) if not os.path.lexists(p))
        try:
            shutil.copy(self.two.path("ca.crt"), link)
        except OSError as e:
            self.skipTest(f"cannot write {link}: {e}")
        self.addCleanup(os.unlink, link)
        self.test_a_foreign_ca_is_not_trusted()

    def test_insecure_means_insecure(self):
        server = self.serve(self.cert_two)
        self.assertEqual(self.probe(server.port, {"insecure-skip-tls-verify": True}, {"token": "t"}).get("a")[0], 0)

    def test_a_ca_that_changes_in_its_file(self):
        """the same path, another CA: an API server with new certificates is trusted again, and kept connections do not matter"""
        ca = self.file("ca.crt", self.one.path("ca.crt"))
        server = Server(self.cert_one)
        probe = self.probe(server.port, {"certificate-authority": ca}, {"token": "t"})
        self.assertEqual(probe.get("a")[0], 0)
        server.close()
        second = self.serve(self.cert_two, port=server.port)
        self.file("ca.crt", self.two.path("ca.crt"))
        code, name, text = probe.get("b")
        self.assertEqual((code, name), (0, "nobody"), text)
        self.assertTrue(second.seen)

    def test_client_certificate_and_its_change(self):
        server = self.serve(self.cert_one, client_ca=self.one.path("ca.crt"))
        cert, key = self.file("tls.crt", self.alice[0]), self.file("tls.key", self.alice[1])
        probe = self.probe(server.port, {"certificate-authority": self.one.path("ca.crt")}, {"client-certificate": cert, "client-key": key})
        self.assertEqual(probe.get("a")[:2], (0, "alice"))
        self.assertIsNone(server.seen[0][2])
        server.refuse.add("alice")
        self.file("tls.crt", self.bob[0])
        self.file("tls.key", self.bob[1])
        self.assertEqual(probe.get("b")[:2], (0, "bob"))  # not over the connection that alice opened

    def test_another_name_in_the_certificate(self):
        server = self.serve(self.named)
        probe = self.probe(server.port, {"certificate-authority": self.one.path("ca.crt"), "tls-server-name": "kubernetes.default.svc"}, {"token": "t"})
        self.assertEqual(probe.get("a")[0], 0)
        self.assertEqual(server.seen[0][1], f"127.0.0.1:{server.port}")
        self.assertEqual(server.seen[0][4], "kubernetes.default.svc")

    def test_a_pair_that_does_not_fit_is_said(self):
        server = self.serve(self.cert_one, client_ca=self.one.path("ca.crt"))
        config = self.config(server.port, {"certificate-authority": self.one.path("ca.crt")}, {"client-certificate": self.alice[0], "client-key": self.alice[0]})
        probe = Probe(config)
        self.assertTrue(probe.first.startswith("ERROR") and "client-key" in probe.first, probe.first)
        probe.p.stdin.close()
        probe.p.stdout.close()
        probe.p.wait()
        probe.err.close()


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main(verbosity=1)
