-- Of these nodes, which are quarantined, which are due for a probe, and which lack a service that is needed.
-- A quarantine that ran out keeps its entry until a probe succeeds; a lack that ran out is forgotten here.
local function ailing(nodes, needs, moment, sick)
  local members, quarantined, due, lacking = {}, {}, {}, {}
  for _, node in ipairs(nodes) do
    members[#members + 1] = node
    for _, service in ipairs(needs) do members[#members + 1] = node .. ' ' .. service end
  end
  for i, ends_at in ipairs(redis.call('ZMSCORE', sick, unpack(members))) do
    if ends_at then
      local node, service = string.match(members[i], '^(%S+) ?(%S*)$')
      local is_over = tonumber(ends_at) <= moment
      if not node then
        lacking[members[i]] = true
      elseif service == '' then
        (is_over and due or quarantined)[node] = true
      elseif is_over then
        redis.call('ZREM', sick, members[i])
      else
        lacking[node] = true
      end
    end
  end
  return quarantined, due, lacking
end
