# Where no sample can take a bad one's place, it is said how many others there were: each once.
. "$HERE/common.inc"
bad() { # N
    rm -rf bad && mkdir bad
    for i in $(seq "$1"); do
        echo "this is no image" >"bad/$i.jpg"
    done
}
cat >p.json <<END
{"source": {"files": {"path": "bad"}}, "ops": [{"decode_image": {}}, {"resize": {"size": [8, 8]}}],
 "batch": 1, "seed": 1, "on_error": "skip"}
END
for n in 1 2 3; do
    bad $n
    says millrace run p.json --quiet --threads 1 2>&1 | sed 's/begins with .*/begins with BYTES/; /^  file:/d'
done
# Of a stream another entry of the step may take the place.
says millrace append entries bad/1.jpg bad/2.jpg
cat >s.json <<END
{"source": {"segments": {"path": "entries", "follow": true, "until": 2}}, "batch": 2, "on_error": "skip",
 "ops": [{"decode_image": {}}, {"resize": {"size": [8, 8]}}]}
END
says millrace run s.json --quiet --threads 1 2>&1 | sed 's/begins with .*/begins with BYTES/; /^  file:/d'
sed 's/"batch": 2/"batch": 1/' s.json >one.json
says millrace run one.json --quiet --threads 1 2>&1 | sed 's/begins with .*/begins with BYTES/; /^  file:/d'
