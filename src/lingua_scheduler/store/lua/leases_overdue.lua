-- leases_overdue: leases of a shard whose deadline has passed, oldest first. Invalid entries are skipped, within `pages`
-- of `most` entries, so that they do not hide valid ones.
-- Replies: a list of how many were skipped, then leases, at most `most`
-- include: clock
-- include: lease
local leases = KEYS[1]   -- zset lease -> deadline
local most   = ARGV[1]
local pages  = ARGV[2]
local now_ms = ARGV[3]

local reply, strange, moment = {0}, 0, clock(now_ms)
most = tonumber(most)
for page = 0, pages - 1 do
  local some = redis.call('ZRANGEBYSCORE', leases, '-inf', moment, 'LIMIT', page * most, most)
  for _, lease in ipairs(some) do
    if not read_lease(lease) then strange = strange + 1 elseif #reply <= most then reply[#reply + 1] = lease end
  end
  if #reply > most or #some < most then break end
end
reply[1] = strange
return reply
