#compdef weir
# Completion of weir for zsh: source <(weir completion zsh)
_weir() {
  local answer line
  local -a found
  answer=$("${~words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null) || return
  if [[ $answer == :files* ]]; then
    [[ $PREFIX != --*=* ]] || compset -P '*='
    _files
    return
  fi
  for line in "${(@f)answer}"; do
    [[ -z $line ]] || found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe weir found
}
if [[ $funcstack[1] == _weir ]]; then _weir "$@"; else compdef _weir weir; fi
