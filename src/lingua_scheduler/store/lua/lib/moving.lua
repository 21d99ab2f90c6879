-- Move a node from the pools it was in to those it is in now; work is proportional to what changes.
-- `names` and `sets` run in parallel: pool name and its key, the union of both lists. The definition of a wide pool
-- (`*:…`) goes with its last member; a node has at most one. With `all`, what should not change is written too.
local function move_pools(node, was, now, names, sets, summary, wide, all)
  local before, after = {}, {}
  for _, name in ipairs(was) do before[name] = true end
  for _, name in ipairs(now) do after[name] = true end
  for i, name in ipairs(names) do
    if before[name] ~= after[name] or all then
      redis.call(after[name] and 'SADD' or 'SREM', sets[i], node)
      local members = redis.call('SCARD', sets[i])
      if members == 0 then redis.call('HDEL', summary, name) else redis.call('HSET', summary, name, members) end
      if members == 0 and string.sub(name, 1, 2) == '*:' then redis.call('HDEL', wide, name) end
    end
  end
end
