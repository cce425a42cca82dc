"""What is in a release, as SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3/)."""
import hashlib
import json
import re
import time
import urllib.parse

import libraries

NONE = "NOASSERTION"


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name)


def package(name, version, licence, home, **more):
    return {"SPDXID": spdx_id(name), "name": name, "versionInfo": version, "downloadLocation": NONE, "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": NONE,
            **({"homepage": home} if home else {}), **more}


def of_library(library):
    """The package url names the Debian package that was used (its colon is not encoded)."""
    where = f"pkg:deb/debian/{library.package}@{urllib.parse.quote(libraries.debian_version(library), safe=':')}"
    return package(library.name, libraries.version(library), library.licence, library.home, supplier=NONE,
                   externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": where}])


def of_file(work, path, inside):
    """An artefact: a package of one file, with its sums."""
    data = path.read_bytes()
    sums = [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("sha1", "sha256")]
    licences = ["MIT", *(libraries.LIBRARIES[name].licence for name in inside)]
    words = [f"({text})" if " " in text else text for text in dict.fromkeys(licences)]
    return package(path.name, work.version, " AND ".join(words), work.address, packageFileName=path.name, checksums=sums)


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def write_sbom(work, inside):
    """inside: {path of an artefact: names of the libraries in it}."""
    source = package("mgpt", work.version, "MIT", work.address, copyrightText="Copyright (c) 2026 the mgpt authors",
                     sourceInfo=f"commit {work.commit or 'unknown'}" + (" and changes" if work.changed else ""),
                     primaryPackagePurpose="SOURCE")
    names = sorted({name for libs in inside.values() for name in libs})
    files = [of_file(work, path, libs) for path, libs in inside.items()]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", spdx_id(path.name)) for path in inside]
    for path, libs in inside.items():
        relations.append(relation(spdx_id(path.name), "GENERATED_FROM", "SPDXRef-mgpt"))
        relations += [relation(spdx_id(path.name), "CONTAINS", spdx_id(name)) for name in libs]
    sums = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"mgpt-{work.version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/mgpt-{work.version}-{sums}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(work.epoch)), "creators": ["Tool: mgpt-release.py"]},
        "packages": [source, *files, *(of_library(libraries.LIBRARIES[name]) for name in names)],
        "relationships": relations,
    }
    path = work.out / f"mgpt-{work.version}.spdx.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
