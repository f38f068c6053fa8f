. "$HERE/common.inc"
photos
pipeline
says millrace run p.json --threads 1 --io pread --reads 4 --ahead 2 --json |
    sed -E 's/"([a-z_]*fingerprint|digest)": "[0-9a-f]{32}"/"\1": "HEX"/g'
