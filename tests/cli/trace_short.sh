# Runs too short for a verdict, with skipped samples, and two traces of different pipelines.
. "$HERE/common.inc"
photos
pipeline
millrace run p.json --quiet --trace one.trace --steps 1 >/dev/null
millrace report one.trace 2>&1 | grep -oE '^too short to tell|4 samples, 1 batch,|after the first.*'
printf 'not a photo' >photos/cat/bad.jpg
pipeline '"on_error": "skip", "epochs": 3'
millrace run p.json --quiet --trace skip.trace 2>/dev/null >/dev/null
millrace report skip.trace | grep -oE '33 samples, 9 batches|[0-9]+ bad samples were.*'
cat >q.json <<END
{"source": {"synthetic": {"samples": 100, "shape": [8]}}, "ops": [{"cast": {"dtype": "float32"}}], "batch": 10}
END
millrace run q.json --quiet --trace other.trace >/dev/null
millrace report skip.trace other.trace -o two.html && grep -c '^<!doctype html>' two.html
millrace report skip.trace other.trace --json | wc -l
