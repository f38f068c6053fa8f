. "$HERE/common.inc"
photos
printf 'photos/cat/3.png 7\nphotos/dog/7.png 9\n' >list.txt
cat >p.json <<END
{"source": {"files": {"list": "list.txt"}},
 "ops": [{"decode_image": {}}, {"center_crop": {"size": 8}}], "batch": 2, "shuffle": false}
END
says millrace run p.json --quiet --digests d
cat d
