# Every op shows itself, and its examples still give the digests in its table.
"$MILLRACE" ops | sed -n '/^Ops:/,/^$/s/^  \([a-z][a-z_0-9]*\) .*/\1/p' >names
[ -s names ] || echo "no ops"
while read -r name; do
    "$MILLRACE" ops "$name" >page || cat page
    grep -q 'digest [0-9a-f]\{32\}$' page || echo "no digest: $name"
done <names
