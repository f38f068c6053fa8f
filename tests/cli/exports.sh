# What the library exports is abi/symbols.txt, so that nobody adds to it or takes from it unawares.
nm -D --defined-only "$(dirname "$MILLRACE")/libmillrace.so" | sed -n 's/.* [A-Z] \(mr_[a-z0-9_]*\).*/\1/p' |
    LC_ALL=C sort >exports.txt
diff "$HERE/../../abi/symbols.txt" exports.txt >diff.txt ||
    { echo "abi/symbols.txt differs from what libmillrace.so exports (< and >):"; head -n 40 diff.txt; }
