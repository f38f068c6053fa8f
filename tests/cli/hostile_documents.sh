# Documents that mean something else than they seem to.
. "$HERE/common.inc"
photos
pipeline
for seed in 9007199254740991 9007199254740992 9007199254740993; do
    printf '{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {}}], "seed": %s}' $seed >seed.json
    says millrace check seed.json >out 2>&1
    grep -E 'error|exit' out
    millrace run p.json --steps 1 --no-digest --quiet --seed $seed 2>&1 | grep error
done
printf '{"source": {"files": {"path": "photos"}}, "batch": 2\000}' >zero.json
says millrace check zero.json
{
    printf '{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {}}'
    yes ', {"random_flip": {}}' | head -n 1000 | tr -d '\n'
    printf ']}'
} >many.json
says millrace check many.json
