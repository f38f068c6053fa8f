"$MILLRACE" --version | head -n 1
# Each library is named once, whatever needs it.
"$MILLRACE" version | sed -n 's/^libraries: //p' | tr ',' '\n' | sed -e 's/^ *//' -e 's/ (.*//' | sort | uniq -d
