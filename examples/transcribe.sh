#!/bin/sh
# Transcribes and translates a sound file of up to two minutes with curl: sh transcribe.sh speech.wav en pt [http://127.0.0.1:5010]
#
# Prints JSON: `text`, `translation`, and `utterances` with their times; … | jq -r .text prints the words alone. WAV files
# always work; WebM, Ogg, MP3 and MP4 do where the scheduler has the extra `audio`. A key in LINGUA_KEY is sent along.
set -eu
if [ $# -lt 3 ] || [ $# -gt 4 ]; then
  echo "usage: sh transcribe.sh speech.wav en pt [http://127.0.0.1:5010]" >&2
  exit 1
fi
[ -r "$1" ] || { echo "$1 cannot be read" >&2; exit 1; }

# Not as an argument, which other users of the computer can read.
printf '%s' "${LINGUA_KEY:+header = \"Authorization: Bearer $LINGUA_KEY\"}" |
  curl --config - --silent --show-error --fail-with-body --header 'Content-Type: application/octet-stream' \
    --data-binary "@$1" "${4:-http://127.0.0.1:5010}/v1/translate?src=$2&tgt=$3&speech=false"
