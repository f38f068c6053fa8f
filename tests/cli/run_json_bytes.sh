# Paths that are not UTF-8 do not break JSON.
. "$HERE/common.inc"
photos
pipeline
name=$(printf 'p\377\n.json')
mv p.json "$name"
cp photos/cat/1.jpg "$(printf 'photos/cat/\376.jpg')"
echo broken >"$(printf 'photos/cat/\375.jpg')"
millrace run "$name" --json >out 2>err
echo "exit code $?"
wc -l <out
grep -o '"pipeline": "[^"]*"' out
grep -o '"file": "[^"]*"' out
grep 'file:' err
