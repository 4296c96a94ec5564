# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The page writer of the scripts here, by the rules of src/html: whatever a page shows goes through `escaped` (in awk:
# escaped() of page_awk), for names of jobs are strangers' words; no script runs, and the page's policy says so. Sourced.
page_style='body { font: 15px/1.5 sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
pre { background: #f4f4f4; padding: .8em; overflow-x: auto; font-size: 13px } .wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 14px } td, th { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: left }
.note { background: #fff4d6; padding: .6em .9em; border-left: 4px solid #d9a400 }
svg { max-width: 100%; height: auto } svg text { font: 12px sans-serif; fill: #222 } .rule { stroke: #ddd }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #16181c } pre { background: #22252b } .note { background: #3a3018 }
td, th { border-color: #444 } svg text { fill: #ddd } .rule { stroke: #444 } a { color: #8ab4f8 } }'

# Text for the body, or for an attribute in double quotes.
escaped() { LC_ALL=C tr -d '\000-\010\013-\037\177' | sed "s/&/\\&amp;/g; s/</\\&lt;/g; s/>/\\&gt;/g; s/\"/\\&quot;/g; s/'/\\&#39;/g"; }
# shellcheck disable=SC2034  # of those who source this
page_awk='function escaped(text) {
    gsub(/[[:cntrl:]]/, "", text); gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    gsub(/"/, "\\&quot;", text); gsub(/\047/, "\\&#39;", text); return text }'

# 'sha256-...' of an inline style, as a Content-Security-Policy names it.
page_source() {
    local hex
    hex=$(printf %s "$1" | sha256sum)
    printf "'sha256-%s'" "$(printf %b "$(sed 's/ .*//; s/../\\x&/g' <<<"$hex")" | base64)"
}

# page_begin TITLE STYLE: all up to the body; STYLE is added to page_style.
page_begin() {
    local style=$page_style$'\n'$2
    cat <<END
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src $(page_source "$style"); base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>$(escaped <<<"$1")</title>
<style>$style</style></head><body>
END
}
page_end() { echo '</body></html>'; }

# page_section TITLE FILE: a file as it is, if there is something in it.
page_section() {
    [[ -s $2 ]] || return 0
    printf '<h2>%s</h2>\n<pre>' "$(escaped <<<"$1")"
    escaped <"$2"
    echo '</pre>'
}
