# A trace is somebody else's file: a report writes nothing but its page, and reads nothing but the trace and the folder that
# the command line names.
. "$HERE/common.inc"
photos
cat >p.json <<END
{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {}}, {"resize": {"size": [16, 16]}}],
 "cache": {"path": "store", "size": "64MB"}, "batch": 4}
END
millrace run p.json --quiet --trace t.trace >/dev/null 2>&1
rm -rf store
millrace report t.trace -o page.html
ls -d store 2>/dev/null
grep -c 'data:image' page.html
millrace report t.trace -o page.html --photos photos
grep -o 'data:image/png' page.html | sort -u
# Elsewhere by now: the ends of the names are enough.
mkdir moved && cp -r photos/cat moved
millrace report t.trace -o page.html --photos moved/cat
grep -o 'data:image/png' page.html | sort -u
says millrace report t.trace -o page.html --photos missing
# Names that lead out of the folder, of the same length as those that were there.
mkdir -p photos/x other && cp photos/cat/* photos/dog/* other
sed -b 's#photos/cat#x/../other#g; s#photos/dog#x/../other#g' t.trace >crafted.trace
rm -r photos/cat photos/dog
millrace report crafted.trace --json | grep -c 'x/../other'
millrace report crafted.trace -o page.html --photos photos
grep -c 'data:image' page.html
ls
