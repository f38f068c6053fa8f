#!/bin/sh
# text_audio.sh BINARY [FOLDER]: tokens, web pages and sound beside tiktoken, lxml, soundfile with torch; see
# text_audio.py. Web pages and GPT-2's vocabulary are those in FOLDER (html/*.html, encoder.json and vocab.bpe), where they are there.
set -eu
library=$(dirname "$1")/libmillrace.so
shift
venv=build/venv-text
packages='torch==2.13.0 numpy soundfile tiktoken tokenizers lxml pillow xxhash'
[ "$(cat $venv/packages 2>/dev/null)" = "$packages" ] || {
    echo "Installing Python packages into $venv: $packages"
    python3 -m venv $venv
    # shellcheck disable=SC2086 # a list
    $venv/bin/pip install -qq --disable-pip-version-check $packages
    printf '%s\n' "$packages" >$venv/packages
}
vocabulary=''
[ -z "${1:-}" ] || [ ! -e "$1/vocab.bpe" ] || vocabulary="--vocabulary $1"
# shellcheck disable=SC2086 # two words or none
$venv/bin/python examples/presto/make_data.py build/text-data --only pages,flac,mp3 --scale 0.25 $vocabulary
MILLRACE_LIB=$library exec $venv/bin/python bench/text_audio.py build/text-data ${1:+--pages "$1/html"} \
    --into docs/benchmarks_text_audio.md
