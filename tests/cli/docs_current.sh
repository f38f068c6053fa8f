# docs/ops.md and docs/millrace.1 are what the command prints.
"$MILLRACE" docs | diff "$HERE/../../docs/ops.md" - >diff.txt ||
    { echo "docs/ops.md is old: millrace docs >docs/ops.md"; head -n 20 diff.txt; }
"$MILLRACE" man | diff "$HERE/../../docs/millrace.1" - >diff.txt ||
    { echo "docs/millrace.1 is old: millrace man >docs/millrace.1"; head -n 20 diff.txt; }
