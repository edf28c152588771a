"""The image: small, without a shell, complete, the same each time, and readable by tools that others wrote."""
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import cluster as control
import node as nodes

BUILD = os.path.join(control.REPO, "tools", "image", "build")


def blobs(oci):
    with tarfile.open(oci) as t:
        return {m.name: t.extractfile(m).read() for m in t if m.isfile()}


def blob(all_blobs, digest):
    data = all_blobs["blobs/" + digest.replace(":", "/")]
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest
    return data


def open_layer(image):
    b = blobs(image.oci)
    manifest = json.loads(blob(b, image.digest))
    config = json.loads(blob(b, manifest["config"]["digest"]))
    packed = blob(b, manifest["layers"][0]["digest"])
    return manifest, config, packed, tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz")


def test_small_and_bare(image, figure):
    manifest, config, packed, layer = open_layer(image)
    size = sum(x["size"] for x in (manifest["config"], *manifest["layers"]))
    figure("image, compressed", f"{size / 2**20:.2f} MiB")
    assert size <= 15 << 20 and len(manifest["layers"]) == 1
    assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == ["/sluice"] and config["os"] == "linux"
    members = {m.name: m for m in layer}
    programs = {n for n, m in members.items() if m.isfile() and m.mode & 0o111 and "/lib" not in "/" + n}
    assert programs == {"sluice"}, "no shell, nothing else to run"
    assert not [n for n, m in members.items() if m.mode & 0o6000 or (m.mode & 0o002 and n != "tmp")]
    assert members["tmp"].isdir() and members["tmp"].mode == 0o1777 and not [n for n in members if n.startswith("tmp/")]
    assert "sluice:x:65532:65532:" in layer.extractfile("etc/passwd").read().decode() and "sluice:x:65532:" in layer.extractfile("etc/group").read().decode()
    assert len({m.mtime for m in members.values()}) == 1 and {(m.uid, m.gid) for m in members.values()} == {(0, 0)}


def test_complete(image, tmp_path):
    """every library that anything in it asks for is in it, with the licence of its package"""
    _, _, _, layer = open_layer(image)
    layer.extractall(tmp_path)
    libs = [p for d, _, files in os.walk(tmp_path) for p in (os.path.join(d, f) for f in files) if "/lib" in p or p.endswith("/sluice")]
    have = {os.path.basename(p) for p in libs}
    for p in libs:
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.run(["readelf", "-d", p], capture_output=True, text=True).stdout):
            assert needed in have, (p, needed)
    assert (tmp_path / "usr/share/doc/sluice/LICENSE").exists() and len(list(tmp_path.glob("usr/share/doc/*/copyright"))) > 10


def test_bill_of_materials(image):
    _, _, _, layer = open_layer(image)
    s = image.sbom
    assert s["spdxVersion"] == "SPDX-2.3" and image.digest.removeprefix("sha256:") in json.dumps(s)
    files = {f["fileName"]: f for f in s["files"]}
    for m in layer:
        if m.isfile() and "/lib" in "/" + m.name and "/doc/" not in m.name:
            sums = {c["algorithm"]: c["checksumValue"] for c in files["./" + m.name]["checksums"]}
            assert sums["SHA256"] == hashlib.sha256(layer.extractfile(m).read()).hexdigest()
    debian = [p for p in s["packages"] if any(r["referenceType"] == "purl" for r in p.get("externalRefs", []))]
    assert {"libc6", "liblmdb0", "libjansson4"} <= {p["name"] for p in debian} and all(p["versionInfo"] for p in debian)
    ids = {x["SPDXID"] for x in (*s["packages"], *s["files"], s)}
    assert len(ids) == len(s["packages"]) + len(s["files"]) + 1
    for r in s["relationships"]:
        assert r["spdxElementId"] in ids and r["relatedSpdxElement"] in ids


def test_others_can_read_it(image):
    for kind, file in (("oci-archive", image.oci), ("docker-archive", image.docker)):
        seen = json.loads(control.run("skopeo", "inspect", "--config", f"{kind}:{file}"))
        assert seen["config"]["Entrypoint"] == ["/sluice"] and seen["config"]["User"] == "65532:65532"
    assert json.loads(control.run("skopeo", "inspect", f"oci-archive:{image.oci}"))["Digest"] == image.digest


def test_the_same_again(tmp_path):
    """compiled in two places from the same source: the same digest, the same bill"""
    source = tmp_path / "elsewhere"
    names = subprocess.run(["git", "-C", control.REPO, "ls-files", "-z", "--cached"], stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for n in names:
        file = os.path.join(control.REPO, n)
        if n and not n.startswith("tests/") and os.path.isfile(file):
            os.makedirs(os.path.dirname(source / n), exist_ok=True)
            shutil.copy2(file, source / n)
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    out = []
    for build, to in ((BUILD, tmp_path / "a"), (str(source / "tools" / "image" / "build"), tmp_path / "b")):
        control.run(build, "--output", str(to), env=env)
        out.append({p.name: p.read_bytes() for p in sorted(to.iterdir())})
    assert {n: hashlib.sha256(d).hexdigest() for n, d in out[0].items()} == {n: hashlib.sha256(d).hexdigest() for n, d in out[1].items()}
    assert json.loads(out[0][f"sluice-{nodes.image_build.version()}.spdx.json"])["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
