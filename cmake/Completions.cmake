# mr_completions(COMMAND FOLDER [COMPONENT]): has the command write what shells read to complete its
# arguments, and installs that below FOLDER, where each shell looks for it.
function(mr_completions command folder)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${made})
  set(component ${ARGN})
  if(component)
    set(component COMPONENT ${component})
  endif()
  foreach(shell bash zsh fish)
    add_custom_command(TARGET ${command} POST_BUILD
                       COMMAND $<TARGET_FILE:${command}> completion ${shell} > ${made}/${shell})
  endforeach()
  install(FILES ${made}/bash DESTINATION ${folder}/bash-completion/completions RENAME millrace ${component})
  install(FILES ${made}/zsh DESTINATION ${folder}/zsh/site-functions RENAME _millrace ${component})
  install(FILES ${made}/fish DESTINATION ${folder}/fish/vendor_completions.d RENAME millrace.fish ${component})
endfunction()
