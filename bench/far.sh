#!/bin/sh
# far.sh MILLRACE [FOLDER]: objects on servers; see far.py. Photos of the folder, or made-up ones. Writes
# docs/benchmarks_far.md. Other loaders are measured where build/far_rivals has them.
set -eu
millrace=$1
photos=${2:-build/demo/photos}
[ -e "$photos" ] || scripts/photos "$photos" 240
scripts/build release delay_proxy >/dev/null
python=build/venv/bin/python
if [ -x build/venv-optional/bin/python ]; then
    python=build/venv-optional/bin/python
    [ -e build/far_rivals ] || $python -m pip install -qq --disable-pip-version-check --no-deps --target build/far_rivals \
        s3fs aiobotocore aiohttp aioitertools wrapt aiosignal attrs frozenlist multidict yarl propcache aiohappyeyeballs \
        webdataset braceexpand s3torchconnector s3torchconnectorclient || echo "far.sh: other loaders are left out" >&2
fi
PYTHONPATH=$PWD/build/far_rivals $python bench/far.py "$millrace" build/release/delay_proxy "$photos" >build/benchmarks_far.md
mv build/benchmarks_far.md docs/benchmarks_far.md
