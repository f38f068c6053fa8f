# What a trace has of names, and that --no-names leaves them out: files, folders, classes.
. "$HERE/common.inc"
photos
pipeline '"epochs": 2'
for how in "" --no-names; do
    # shellcheck disable=SC2086 # an option or none
    millrace run p.json --quiet --trace t.trace $how >digest
    echo "with ${how:-names}: $(grep -aoE 'photos|"cat"|"dog"|\.jpg|\.png' t.trace | sort -u | tr '\n' ' ')"
    cat digest
    millrace report t.trace | grep -oE '20 samples, 6 batches|[0-9]+ classes|^  decode_image +20'
    millrace report t.trace | grep -cE '^ +[0-9.]+ .s  .+ \(sample [0-9]+, batch [0-9]+\)$'
    millrace report t.trace -o page.html
    echo "on the page: $(grep -aoE 'photos/|dog/' page.html | sort -u | tr '\n' ' ')"
done
