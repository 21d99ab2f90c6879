-- Some members of several sets that have no member in common: each is equally likely, and they come in random order.
-- `later` learns which of them are not of the first set.
local function draw(sets, most, later)
  local sizes, left, places, wanted = {}, 0, {}, {}
  for i, set in ipairs(sets) do
    sizes[i] = redis.call('SCARD', set)
    left = left + sizes[i]
  end
  for place = 1, math.min(most, left) do
    local dice, i = math.random(left), 1
    while dice > sizes[i] do dice, i = dice - sizes[i], i + 1 end
    places[place], wanted[i] = i, (wanted[i] or 0) + 1
    sizes[i], left = sizes[i] - 1, left - 1
  end
  local members, drawn = {}, {}
  for i, count in pairs(wanted) do members[i] = redis.call('SRANDMEMBER', sets[i], count) end
  for place, i in ipairs(places) do
    drawn[place] = table.remove(members[i])
    if i > 1 then later[drawn[place]] = true end
  end
  return drawn
end
