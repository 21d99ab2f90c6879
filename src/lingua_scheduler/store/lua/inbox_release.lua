-- inbox_release: end an adoption; with `remove`, also delete what is left of an empty inbox.
-- Replies: released | removed | lost (another instance has adopted it)
local inbox   = KEYS[1]   -- stream of letters
local dead    = KEYS[2]   -- stream of dead letters
local adopter = KEYS[3]   -- hash: by, epoch, until
local by      = ARGV[1]
local epoch   = ARGV[2]
local remove  = ARGV[3]   -- 1 or 0

local held = redis.call('HMGET', adopter, 'by', 'epoch')
if held[1] ~= by or held[2] ~= epoch then return {'lost'} end
if remove == '1' and redis.call('XLEN', inbox) == 0 and redis.call('XLEN', dead) == 0 then
  redis.call('DEL', inbox, dead, adopter)
  return {'removed'}
end
redis.call('HSET', adopter, 'until', 0)
return {'released'}
