# A batch as a contact sheet; the file is looked at by the Python tests.
. "$HERE/common.inc"
cat >images.json <<END
{"source": {"files": {"path": "$HERE/data/photos"}}, "ops": ["decode_image", {"center_crop": {"size": 16}}], "batch": 4}
END
"$MILLRACE" show images.json -o sheet.png --step 1
head -c 4 sheet.png | od -An -c | tr -s ' '
"$MILLRACE" show images.json --output=small.png --batch 10 --columns 5 --cell 8
"$MILLRACE" show images.json --step 99
echo "exit $?"
"$MILLRACE" show images.json -o nowhere/sheet.png
echo "exit $?"
"$MILLRACE" show images.json -x
echo "exit $?"
echo '{"source": {"synthetic": {"samples": 4, "shape": [3]}}}' >numbers.json
"$MILLRACE" show numbers.json
echo "exit $?"
