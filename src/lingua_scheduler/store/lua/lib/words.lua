-- The words of a space-separated list.
local function words(list)
  local found = {}
  for word in string.gmatch(list, '%S+') do found[#found + 1] = word end
  return found
end
