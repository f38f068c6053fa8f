# Data that is there and cannot be used is a failure of the data; data that is not there is none.
. "$HERE/common.inc"
mkdir photos empty
cp "$HERE"/data/photos/*/*.jpg photos/
cd photos
ls | head -2 | sed 's/$/,1/' | sed '1i file,label' >../short.csv
ls | sed 's/$/,cat/' | sed '1i file,label' | sed '3s/cat/7/' >../mixed.csv
ls | sed 's/$/,cat/' | sed '1i file,label' >../cats.csv
cd ..
document() { # SOURCE [REST]
    echo "{\"source\": {\"files\": $1}, \"ops\": [\"decode_image\"], \"batch\": 2${2:-}}" >p.json
}
faults() {
    says millrace check p.json >said
    sed -n '/^data/,/^memory/p' said
    tail -1 said
    says millrace check p.json --json | tail -1
}
document '{"path": "empty"}' && faults
document '{"path": "photos", "labels": "short.csv"}' && faults
document '{"path": "photos", "labels": "mixed.csv"}' && faults
document '{"path": "photos", "labels": "cats.csv"}' ', "view": [{"where": "label == dog"}]' && faults
document '{"path": "photos", "labels": "cats.csv"}' ', "view": [{"where": "label == cat"}]' && faults
document '{"path": "nowhere"}' && faults
