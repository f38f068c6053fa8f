# Who makes what may differ; the step of all ranks together has the same samples with the same bytes.
. "$HERE/common.inc"
photos
pipeline '"epochs": 3, "remainder": "pad"'
cp p.json plain.json
sed 's/"seed": 1/"seed": 1, "share": "strict"/' plain.json >strict.json
sed 's/"seed": 1/"seed": 1, "share": "local"/' plain.json >local.json
sed 's/"seed": 1/"seed": 1, "share": {"mode": "local", "memory": "4KB", "sample_bytes": "1KB", "ranks_per_node": 2}/' \
    plain.json >tight.json
millrace run plain.json --quiet --set-digests one >/dev/null || exit
for kind in plain strict local tight; do
    for rank in 0 1 2 3; do
        millrace run $kind.json --quiet --world 4 --rank $rank --set-digests $kind.$rank --digests $kind.$rank.in_order \
            >/dev/null || exit
    done
    echo "$kind: $(millrace digest --set one $kind.0,$kind.1,$kind.2,$kind.3)"
done
cmp plain.2.in_order strict.2.in_order && echo "strict: every rank has what it always had"
cmp -s plain.2.in_order local.2.in_order || echo "local: another rank makes it"
echo "ranks mixed up: $(millrace digest --set one local.0,local.1,local.2,plain.3 | head -n 1)"
says millrace digest --set one local.0,missing
sed -i 's/"share": "local"/"share": "near"/' local.json
says millrace check local.json
sed -i 's/, "sample_bytes": "1KB"//' tight.json
says millrace run tight.json --world 4 --rank 0
